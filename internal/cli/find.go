package cli

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/salvor-ha/salvor/internal/client"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/wire"
)

// errEnough ends a walk over a list.
var errEnough = errors.New("enough")

func missing(err error) bool {
	var fault *wire.Fault
	return errors.As(err, &fault) && fault.Status == 404
}

// segmentOf finds a segment by uuid or name.
func segmentOf(ctx context.Context, api *client.Client, arg string) (wire.Segment, error) {
	if id, ok := ha.CanonicalUUID(arg); ok {
		s, err := api.Segment(ctx, id)
		if !missing(err) {
			return s, err
		}
	}
	var found []wire.Segment
	_, err := api.EachSegment(ctx, client.Query{}, func(page []wire.Segment) error {
		for _, s := range page {
			if strings.EqualFold(s.Name, arg) {
				found = append(found, s)
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return wire.Segment{}, err
	case len(found) == 0:
		return wire.Segment{}, &notFoundError{fmt.Sprintf("there is no segment %q; salvor segment list shows them", arg)}
	}
	for _, s := range found {
		if s.Name == arg || len(found) == 1 {
			return s, nil
		}
	}
	return wire.Segment{}, usagef("%q may be %s or %s: give its uuid", arg, found[0].UUID, found[1].UUID)
}

// eachHost walks over the hosts of one segment or, with none, of all. more: there are hosts behind the query's limit.
func eachHost(ctx context.Context, api *client.Client, segment string, q client.Query, use func([]wire.Host) error) (more bool, err error) {
	if segment != "" {
		s, err := segmentOf(ctx, api, segment)
		if err != nil {
			return false, err
		}
		return api.EachHost(ctx, s.UUID, q, use)
	}
	limit, used := q.Limit, 0
	_, err = api.EachSegment(ctx, client.Query{Sort: []string{"name:asc"}}, func(page []wire.Segment) error {
		for _, s := range page {
			if limit > 0 {
				if q.Limit = limit - used; q.Limit <= 0 {
					more = true // perhaps: the next segment may have none
					return errEnough
				}
			}
			further, err := api.EachHost(ctx, s.UUID, q, func(hosts []wire.Host) error {
				used += len(hosts)
				return use(hosts)
			})
			if err != nil {
				return err
			}
			more = more || further
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return more, err
}

// hostOf finds a host by uuid or name, in one segment or, with none, in all.
func hostOf(ctx context.Context, api *client.Client, segment, arg string) (wire.Host, error) {
	id, _ := ha.CanonicalUUID(arg)
	var found []wire.Host
	_, err := eachHost(ctx, api, segment, client.Query{}, func(page []wire.Host) error {
		for _, h := range page {
			if h.UUID == id || h.Name == arg {
				found = []wire.Host{h}
				return errEnough
			}
			if strings.EqualFold(h.Name, arg) {
				found = append(found, h)
			}
		}
		return nil
	})
	switch {
	case err != nil && !errors.Is(err, errEnough):
		return wire.Host{}, err
	case len(found) == 0:
		return wire.Host{}, &notFoundError{fmt.Sprintf("there is no host %q; salvor host list shows them", arg)}
	case len(found) > 1:
		return wire.Host{}, usagef("%q may be %s in segment %s, or %s in segment %s: give its uuid", arg,
			found[0].Name, found[0].FailoverSegment.Name, found[1].Name, found[1].FailoverSegment.Name)
	}
	return found[0], nil
}

// nameOfHost is what the api calls by name only: a uuid becomes its host's name, anything else stays, also of a host that only Nova knows.
func nameOfHost(ctx context.Context, api *client.Client, arg string) (string, error) {
	if _, isID := ha.CanonicalUUID(arg); !isID {
		return arg, nil
	}
	h, err := hostOf(ctx, api, "", arg)
	return h.Name, err
}

// hostNames has every host's name by its uuid. Where hosts may not be listed it is empty: uuids are shown.
func hostNames(ctx context.Context, api *client.Client) (map[string]string, error) {
	names := map[string]string{}
	_, err := eachHost(ctx, api, "", client.Query{}, func(page []wire.Host) error {
		for _, h := range page {
			names[h.UUID] = h.Name
		}
		return nil
	})
	var fault *wire.Fault
	if errors.As(err, &fault) && fault.Status == 403 {
		err = nil
	}
	return names, err
}

// openStatuses are those of notifications that are not done with.
var openStatuses = []string{string(ha.StatusNew), string(ha.StatusRunning), string(ha.StatusError)}

// notificationOf finds a notification by its uuid, or by the name of its host: the only one that is not done with, else the
// latest that reported a failure: that the host is back says nothing of what was done.
func notificationOf(ctx context.Context, api *client.Client, arg string) (string, error) {
	return notificationFor(ctx, api, arg, url.Values{})
}

// withMovesOf is notificationOf for what only a host's notification has.
func withMovesOf(ctx context.Context, api *client.Client, arg string) (string, error) {
	return notificationFor(ctx, api, arg, url.Values{"type": {string(ha.TypeComputeHost)}})
}

// passedOver is how many reports are looked through for one of a failure.
const passedOver = 50

func notificationFor(ctx context.Context, api *client.Client, arg string, filters url.Values) (string, error) {
	if id, ok := ha.CanonicalUUID(arg); ok {
		return id, nil
	}
	h, err := hostOf(ctx, api, "", arg)
	var none *notFoundError
	if errors.As(err, &none) {
		return "", &notFoundError{fmt.Sprintf("%q is no notification's uuid and no host's name; salvor recovery list shows what is not done with", arg)}
	}
	if err != nil {
		return "", err
	}
	var open []wire.Notification
	filters.Set("source_host_uuid", h.UUID)
	for _, status := range openStatuses {
		filters.Set("status", status)
		if err := collect(ctx, api, filters, 10, &open); err != nil {
			return "", err
		}
	}
	if len(open) == 0 {
		filters.Del("status")
		if err := collect(ctx, api, filters, passedOver, &open); err != nil {
			return "", err
		}
		failure := func(n wire.Notification) bool { return n.Payload[ha.KeyEvent] != ha.EventStarted }
		i := max(0, slices.IndexFunc(open, failure))
		open = open[min(i, len(open)):min(i+1, len(open))]
	}
	switch len(open) {
	case 0:
		return "", &notFoundError{fmt.Sprintf("host %s has no notifications", h.Name)}
	case 1:
		return open[0].NotificationUUID, nil
	}
	lines := []string{fmt.Sprintf("host %s has %d notifications that are not done with: give the uuid of one", h.Name, len(open))}
	for _, n := range open {
		lines = append(lines, fmt.Sprintf("  %s  %s %s", n.NotificationUUID, n.Type, n.Status))
	}
	return "", usagef("%s", strings.Join(lines, "\n"))
}

// moveOf finds a move of a notification by its uuid, or by its instance's uuid or name.
func moveOf(ctx context.Context, api *client.Client, notification, arg string) (wire.VMove, error) {
	id, isID := ha.CanonicalUUID(arg)
	if isID {
		m, err := api.VMove(ctx, notification, id)
		if !missing(err) {
			return m, err
		}
	}
	var found []wire.VMove
	_, err := api.EachVMove(ctx, notification, client.Query{}, func(page []wire.VMove) error {
		for _, m := range page {
			if isID && m.InstanceUUID == id || m.InstanceName == arg {
				found = append(found, m)
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return wire.VMove{}, err
	case len(found) == 0:
		return wire.VMove{}, &notFoundError{fmt.Sprintf("there is no move %q, nor one of an instance of that name; salvor vmove list %s shows them", arg, notification)}
	case len(found) > 1:
		return wire.VMove{}, usagef("%q may be move %s or %s: give its uuid", arg, found[0].UUID, found[1].UUID)
	}
	return found[0], nil
}

func collect(ctx context.Context, api *client.Client, filters url.Values, limit int, into *[]wire.Notification) error {
	_, err := api.EachNotification(ctx, client.Query{Filters: filters, Limit: limit}, func(page []wire.Notification) error {
		for _, n := range page { // one may have been found in another status before
			*into = append(slices.DeleteFunc(*into, func(o wire.Notification) bool { return o.NotificationUUID == n.NotificationUUID }), n)
		}
		return nil
	})
	return err
}

// completionTime is what a person at a prompt waits for.
const completionTime = 2 * time.Second

// maxCompletions bounds how many names are offered.
const maxCompletions = 200

// completeNames offers names of segments, hosts or notifications for an argument. Where the api does not answer in time,
// there are none.
func (c *connection) completeNames(what func(context.Context, *client.Client, func(name, about string) error) error, most int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begin string) ([]string, cobra.ShellCompDirective) {
		if most > 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		api, err := c.open()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		var names []string
		_ = what(ctx, api, func(name, about string) error { // what came in time is offered
			if strings.HasPrefix(name, begin) {
				names = append(names, name+"\t"+about)
			}
			if len(names) >= maxCompletions {
				return errEnough
			}
			return nil
		})
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

func segmentNames(ctx context.Context, api *client.Client, offer func(name, about string) error) error {
	_, err := api.EachSegment(ctx, client.Query{Sort: []string{"name:asc"}}, func(page []wire.Segment) error {
		for _, s := range page {
			if err := offer(s.Name, s.RecoveryMethod); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

func namesOfHosts(ctx context.Context, api *client.Client, offer func(name, about string) error) error {
	_, err := eachHost(ctx, api, "", client.Query{Sort: []string{"name:asc"}}, func(page []wire.Host) error {
		for _, h := range page {
			if err := offer(h.Name, h.FailoverSegment.Name); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// notificationNames are those that are not done with, and hosts, by whose names notifications go, too.
func notificationNames(ctx context.Context, api *client.Client, offer func(name, about string) error) error {
	if err := openNotifications(ctx, api, offer); err != nil {
		return err
	}
	return namesOfHosts(ctx, api, offer)
}

// movesOf are the instances of a notification, by whose names its moves go, too.
func movesOf(notification string) func(context.Context, *client.Client, func(name, about string) error) error {
	return func(ctx context.Context, api *client.Client, offer func(name, about string) error) error {
		id, err := withMovesOf(ctx, api, notification)
		if err != nil {
			return err
		}
		_, err = api.EachVMove(ctx, id, client.Query{Limit: maxCompletions}, func(page []wire.VMove) error {
			for _, m := range page {
				if err := offer(m.InstanceName, m.Status); err != nil {
					return err
				}
			}
			return nil
		})
		return err
	}
}

func openNotifications(ctx context.Context, api *client.Client, offer func(name, about string) error) error {
	for _, status := range openStatuses {
		_, err := api.EachNotification(ctx, client.Query{Filters: url.Values{"status": {status}}, Limit: maxCompletions}, func(page []wire.Notification) error {
			for _, n := range page {
				if err := offer(n.NotificationUUID, n.Type+" "+n.Status); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
