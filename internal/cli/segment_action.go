package cli

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/salvor-ha/salvor/internal/client"
	"github.com/salvor-ha/salvor/internal/wire"
)

// A segment's storage_failure_action is salvor's own: Masakari's segments, and so their resource on the wire, do not have it.
const (
	actionFlag    = "storage-failure-action"
	actionKey     = "storage_failure_action"
	actionDefault = "default" // as the option says
)

var actionWords = []string{"error", "evacuate", actionDefault}

// segmentView is a segment as it is shown.
type segmentView struct {
	wire.Segment
	Action *string `json:"storage_failure_action"` // null: the api does not say
}

func addAction(cmd *cobra.Command, without string) *string {
	action := cmd.Flags().String(actionFlag, without, "what happens to the instances of a host whose storage fails. error: they are set to "+
		"error and stay; evacuate: the host is fenced and they are moved; default: as the option "+actionKey+" says")
	words(cmd, actionFlag, actionWords...)
	return action
}

func checkAction(cmd *cobra.Command, action string) error {
	if cmd.Flags().Changed(actionFlag) && !slices.Contains(actionWords, action) {
		return usagef("--%s %q: expected %s", actionFlag, action, strings.Join(actionWords, ", "))
	}
	return nil
}

// setAction sets what the flag says, if it was given.
func setAction(cmd *cobra.Command, api *client.Client, s wire.Segment, action string) error {
	if !cmd.Flags().Changed(actionFlag) {
		return nil
	}
	if action == actionDefault {
		action = ""
	}
	return api.SetStorageAction(cmd.Context(), s.UUID, action)
}

// actions are what the api says of segments' storage_failure_action.
type actions struct {
	known  bool
	option string
	own    map[string]string // by uuid
}

// actionsOf asks for them: of one segment (a uuid), or with "" of all. An api that does not have them (a Masakari's, an older salvor's) and
// one that does not tell this caller are no error: the rest of a segment is worth showing.
func actionsOf(ctx context.Context, api *client.Client, segment string) (actions, error) {
	option, own, err := api.StorageActions(ctx, segment)
	var fault *wire.Fault
	if errors.As(err, &fault) && (fault.Status == http.StatusNotFound || fault.Status == http.StatusForbidden) {
		return actions{}, nil
	}
	return actions{err == nil, option, own}, err
}

// of is a segment's word; a table says what default means now.
func (a actions) of(s wire.Segment, format string) *string {
	if !a.known {
		return nil
	}
	word, own := a.own[s.UUID]
	if !own {
		word = actionDefault
		if format == "table" && a.option != "" {
			word += " (" + a.option + ")"
		}
	}
	return &word
}

func (c *connection) showSegment(cmd *cobra.Command, api *client.Client, s wire.Segment) error {
	actions, err := actionsOf(cmd.Context(), api, s.UUID)
	if err != nil {
		return err
	}
	return c.show(cmd, segmentView{s, actions.of(s, c.format)})
}
