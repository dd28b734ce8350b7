package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/salvor-ha/salvor/internal/client"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/wire"
)

const (
	watchFirst = 500 * time.Millisecond // between two looks while something happens
	watchMost  = 5 * time.Second        // while nothing does
)

func watchCommand(conn *connection) *cobra.Command {
	return &cobra.Command{
		Use: "watch NOTIFICATION", Args: cobra.ExactArgs(1), Short: "Follow one until it ends",
		ValidArgsFunction: conn.completeNames(notificationNames, 1),
		Long: `Prints what has happened and what happens, line by line, until the notification ends. The exit status is 0 when it
finished, 1 when it failed or was ignored. An api that does not answer is waited for. Ctrl-C ends the watching
only. With -o json each line is an entry of the history as JSON; the last has notification_uuid, status and message.`,
		Example: `  salvor recovery watch cmp-01
  salvor notification watch NOTIFICATION && echo moved`,
		RunE: conn.with(func(cmd *cobra.Command, api *client.Client, args []string) error {
			id, err := notificationOf(cmd.Context(), api, args[0])
			if err != nil {
				return err
			}
			w := watcher{api: api, id: id, out: cmd.OutOrStdout(), errs: cmd.ErrOrStderr(), format: conn.format, every: watchFirst}
			return w.run(cmd.Context())
		}),
	}
}

// watcher follows one notification.
type watcher struct {
	api       *client.Client
	id        string
	out, errs io.Writer
	format    string
	every     time.Duration // between two looks while something happens

	told   int // entries of the history
	status string
	why    string
	lost   bool // the api did not answer the last time
}

// run ends with nil when the notification finished, errSilent when it ended otherwise.
func (w *watcher) run(ctx context.Context) error {
	wait := w.every
	for {
		r, err := w.api.Recovery(ctx, w.id)
		wait = min(wait*3/2, watchMost)
		switch {
		case err == nil:
			news, err := w.tell(r)
			if err != nil {
				return err
			}
			if w.lost = false; news {
				wait = w.every
			}
			if ended(r) {
				return w.end(ctx, r)
			}
		case ctx.Err() == nil && isAway(err):
			w.away(err)
		default:
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			fmt.Fprintln(w.errs, "no longer watching; the recovery goes on")
			return ctx.Err()
		}
	}
}

func isAway(err error) bool {
	_, code := explain(err)
	return code == exitAway
}

// away says once that the api does not answer.
func (w *watcher) away(err error) {
	if !w.lost {
		text, _ := explain(err)
		fmt.Fprintf(w.errs, "%s\nTrying again.\n", text)
	}
	w.lost = true
}

var endStatuses = []string{string(ha.StatusFinished), string(ha.StatusFailed), string(ha.StatusIgnored)}

func ended(r wire.Recovery) bool {
	return slices.Contains(endStatuses, r.Status) && (r.Unit == nil || r.Unit.EndedAt != nil)
}

// tell prints what is new, and reports whether anything was. Its error is the output's: nobody reads it any more.
func (w *watcher) tell(r wire.Recovery) (news bool, err error) {
	for ; w.told < len(r.Timeline); w.told++ {
		news = true
		if err := w.entry(r.Timeline[0], r.Timeline[w.told]); err != nil {
			return news, err
		}
	}
	why := ""
	if r.Message != nil {
		why = *r.Message
	}
	if r.Status == w.status && why == w.why {
		return news, nil
	}
	w.status, w.why = r.Status, why
	if w.format == "table" && !ended(r) {
		_, err = fmt.Fprintf(w.out, "%s  status    %s\n", stampWidth, printable(sentence(r.Status, why)))
	}
	return true, err
}

// stampWidth is blank where a line of the history has its times.
const stampWidth = "                               "

func (w *watcher) entry(first, e wire.TimelineEntry) error {
	if w.format != "table" {
		return w.line(e)
	}
	e.Open = false // it is no state: the outcome comes as an entry of its own
	_, err := fmt.Fprint(w.out, timelineLine(first, e))
	return err
}

// line prints JSON in one line, or YAML as a document.
func (w *watcher) line(v any) error {
	if w.format == "yaml" {
		raw, err := yamlOf(v)
		if err == nil {
			_, err = fmt.Fprintf(w.out, "---\n%s", raw)
		}
		return err
	}
	enc := json.NewEncoder(w.out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

func (w *watcher) end(ctx context.Context, r wire.Recovery) error {
	var err error
	if w.format == "table" {
		var reported wire.Notification
		if w.why == "" { // what was reported says what its end means
			if reported, err = w.api.Notification(ctx, w.id); err != nil {
				return err
			}
		}
		_, err = fmt.Fprintf(w.out, "\n%s\n", printable(sentence(r.Status, outcome(r, reported.Payload))))
	} else {
		err = w.line(struct {
			ID      string  `json:"notification_uuid"`
			Status  string  `json:"status"`
			Message *string `json:"message"`
		}{r.NotificationUUID, r.Status, r.Message})
	}
	if err != nil {
		return err
	}
	if r.Status != string(ha.StatusFinished) {
		return errSilent
	}
	return nil
}

func sentence(status, why string) string {
	if why == "" {
		return status
	}
	return status + ": " + why
}
