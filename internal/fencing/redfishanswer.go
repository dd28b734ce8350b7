package fencing

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/ha"
)

// What of Redfish's JSON is read. Fields that are not there stay empty; those of a wrong type make the answer unreadable.

type redfishLink struct {
	ID string `json:"@odata.id"`
}

type redfishSystem struct {
	PowerState *string `json:"PowerState"`
	Actions    struct {
		Reset struct {
			Target  string   `json:"target"`
			Allowed []string `json:"ResetType@Redfish.AllowableValues"`
			Info    string   `json:"@Redfish.ActionInfo"`
		} `json:"#ComputerSystem.Reset"`
	} `json:"Actions"`
	Tag string `json:"@odata.etag"`

	etag string
}

func readSystem(body []byte) (redfishSystem, error) {
	var s redfishSystem
	if err := json.Unmarshal(body, &s); err != nil {
		return redfishSystem{}, errors.New("the system's description cannot be read: not the JSON that Redfish has")
	}
	s.etag = s.Tag
	return s, nil
}

// power reads PowerState. What is neither On nor Off but on its way still has power; null is unknown.
func (s redfishSystem) power() (ha.Power, string, error) {
	if s.PowerState == nil {
		return ha.PowerUnknown, "", errors.New("the system shows no PowerState")
	}
	switch *s.PowerState {
	case "Off":
		return ha.PowerOff, "PowerState Off", nil
	case "On", "PoweringOn", "PoweringOff", "Paused":
		return ha.PowerOn, "PowerState " + *s.PowerState, nil
	}
	return ha.PowerUnknown, "", fmt.Errorf("PowerState is %q, which says neither On nor Off", config.Cleaner{}.Line(*s.PowerState))
}

// readActionInfo reads the values of ResetType that an ActionInfo allows; none when it does not say.
func readActionInfo(body []byte) []string {
	var info struct {
		Parameters []struct {
			Name            string
			AllowableValues []string
		}
	}
	if json.Unmarshal(body, &info) != nil {
		return nil
	}
	for _, p := range info.Parameters {
		if p.Name == "ResetType" {
			return p.AllowableValues
		}
	}
	return nil
}

// redfishMessage is the text of a refusal: the extended information where there is one.
func redfishMessage(body []byte) string {
	var out struct {
		Error struct {
			Message  string `json:"message"`
			Extended []struct {
				Message string
			} `json:"@Message.ExtendedInfo"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &out) != nil {
		return ""
	}
	texts := []string{out.Error.Message}
	for _, e := range out.Error.Extended[:min(len(out.Error.Extended), 3)] {
		if e.Message != "" && e.Message != out.Error.Message {
			texts = append(texts, e.Message)
		}
	}
	return strings.TrimSpace(strings.Join(texts, " "))
}
