package simhttp

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/salvor-ha/salvor/internal/sim"
)

// serverAction is POST servers/{id}/action. Nova reads the body before it looks at the server.
func (s *Server) serverAction(r *request, id string) reply {
	name, raw := onlyKey(r.body)
	if name == "" {
		return refusal(http.StatusBadRequest, "badRequest", "Malformed request body")
	}
	switch name {
	case "evacuate":
		return s.evacuate(r, id, raw)
	case "lock":
		return s.lock(r, id, raw)
	}
	var args struct {
		State string  `json:"state"`
		Type  string  `json:"type"`
		Host  *string `json:"host"`
	}
	if len(raw) > 0 && raw[0] == '{' {
		if err := json.Unmarshal(raw, &args); err != nil {
			return invalid(name, raw, err.Error())
		}
	}
	action := sim.ServerAction{Name: name, State: args.State, Hard: args.Type == "HARD"}
	if args.Host != nil {
		action.Host = *args.Host
	}
	return answer(s.cloud.Act(r.who(), id, action), http.StatusAccepted)
}

// evacuate checks the body by microversion: onSharedStorage went with 2.14, force came with 2.29 and went with 2.68.
func (s *Server) evacuate(r *request, id string, raw json.RawMessage) reply {
	allowed := []string{"host", "adminPass"}
	if r.minor < 14 {
		allowed = append(allowed, "onSharedStorage")
	}
	if r.minor >= 29 && r.minor < 68 {
		allowed = append(allowed, "force")
	}
	if refused := onlyKeys("evacuate", raw, allowed); refused != nil {
		return *refused
	}
	var args struct {
		Host            string `json:"host"`
		Force           bool   `json:"force"`
		AdminPass       string `json:"adminPass"`
		OnSharedStorage *bool  `json:"onSharedStorage"`
	}
	if err := json.Unmarshal(raw, &args); err != nil {
		return invalid("evacuate", raw, err.Error())
	}
	if r.minor < 14 && args.OnSharedStorage == nil {
		return invalid("evacuate", raw, "'onSharedStorage' is a required property")
	}
	err := s.cloud.Act(r.who(), id, sim.ServerAction{Name: "evacuate", Host: args.Host, Force: args.Force})
	out := answer(err, http.StatusOK)
	if err == nil && r.minor < 14 {
		if args.AdminPass == "" {
			args.AdminPass = rand.Text()[:12]
		}
		out.body = object{"adminPass": args.AdminPass}
	}
	return out
}

func (s *Server) lock(r *request, id string, raw json.RawMessage) reply {
	var args struct {
		Reason string `json:"locked_reason"`
	}
	if !bytes.Equal(raw, []byte("null")) {
		if r.minor < 73 {
			return invalid("lock", raw, "None is not of type 'object'")
		}
		if refused := onlyKeys("lock", raw, []string{"locked_reason"}); refused != nil {
			return *refused
		}
		if err := json.Unmarshal(raw, &args); err != nil {
			return invalid("lock", raw, err.Error())
		}
	}
	return answer(s.cloud.Act(r.who(), id, sim.ServerAction{Name: "lock", Reason: args.Reason}), http.StatusAccepted)
}

// onlyKeys refuses an object with other keys in Nova's words.
func onlyKeys(field string, raw json.RawMessage, allowed []string) *reply {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil || given == nil {
		out := invalid(field, raw, fmt.Sprintf("%s is not of type 'object'", python(raw)))
		return &out
	}
	var extra []string
	for key := range given {
		if !slices.Contains(allowed, key) {
			extra = append(extra, "'"+key+"'")
		}
	}
	if len(extra) == 0 {
		return nil
	}
	slices.Sort(extra)
	were := "was"
	if len(extra) > 1 {
		were = "were"
	}
	out := invalid(field, raw, fmt.Sprintf("Additional properties are not allowed (%s %s unexpected)", strings.Join(extra, ", "), were))
	return &out
}

// invalid is how Nova's schema check words a refusal.
func invalid(field string, raw json.RawMessage, why string) reply {
	return refusal(http.StatusBadRequest, "badRequest",
		fmt.Sprintf("Invalid input for field/attribute %s. Value: %s. %s", field, python(raw), why))
}

// python writes a JSON value as Python shows it, keys sorted.
func python(raw json.RawMessage) string {
	var value any
	if json.Unmarshal(raw, &value) != nil {
		return string(raw)
	}
	return pythonValue(value)
}

func pythonValue(value any) string {
	switch v := value.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case string:
		return "'" + v + "'"
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = pythonValue(v[i])
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case map[string]any:
		parts := make([]string, 0, len(v))
		for key, value := range v {
			parts = append(parts, "'"+key+"': "+pythonValue(value))
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, ", ") + "}"
	default:
		return fmt.Sprint(v)
	}
}
