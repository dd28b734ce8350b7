package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/salvor-ha/salvor/internal/wire"
)

func storagePath(host, rest string) string { return "/ext/hosts/" + url.PathEscape(host) + rest }

// HostHealth shows a host's storage; host is a name or a uuid, here and below.
func (c *Client) HostHealth(ctx context.Context, host string) (wire.HostHealth, error) {
	return c.health(ctx, http.MethodGet, storagePath(host, "/health"), nil)
}

func (c *Client) health(ctx context.Context, method, path string, body any) (wire.HostHealth, error) {
	var out wire.HealthBody
	err := c.call(ctx, method, path, body, &out)
	return out.Health, err
}

// Clear are the words that go with ClearHost.
type Clear struct {
	Reason         string
	ResetInstances bool
	Force          bool
}

// ClearHost clears a host's open episode.
func (c *Client) ClearHost(ctx context.Context, host string, o Clear) (wire.EpisodeDetails, error) {
	body := Words{Reason: o.Reason}.body()
	body["reset_instances"], body["force"] = o.ResetInstances, o.Force
	return c.episode(ctx, http.MethodPost, storagePath(host, "/health/clear"), body)
}

// FailHost says that a host's storage is broken, and what needs it.
func (c *Client) FailHost(ctx context.Context, host string, radius []string, reason string) (wire.EpisodeDetails, error) {
	body := Words{Reason: reason}.body()
	body["radius"] = append([]string{}, radius...)
	return c.episode(ctx, http.MethodPost, storagePath(host, "/health/error"), body)
}

// HoldHost holds a host's cascades, also those to come; with off it lets them go on.
func (c *Client) HoldHost(ctx context.Context, host string, off bool, reason string) (wire.HostHealth, error) {
	return c.health(ctx, http.MethodPost, storagePath(host, "/health/"+holdOr(off)), Words{Reason: reason}.body())
}

func holdOr(off bool) string {
	if off {
		return "resume"
	}
	return "hold"
}

// NewAgentKey makes a host's agent key; a former one is void.
func (c *Client) NewAgentKey(ctx context.Context, host string) (wire.AgentKey, error) {
	var out wire.AgentKeyBody
	err := c.call(ctx, http.MethodPost, storagePath(host, "/agent-key"), map[string]any{}, &out)
	return out.AgentKey, err
}

// BindAgentUser lets a Keystone user speak for a host, "" none.
func (c *Client) BindAgentUser(ctx context.Context, host, user string) (wire.HostHealth, error) {
	return c.health(ctx, http.MethodPost, storagePath(host, "/agent-user"), map[string]any{"user_id": user})
}

// CascadePreview shows what a cascade with that radius would do now.
func (c *Client) CascadePreview(ctx context.Context, host string, radius []string) (wire.CascadePreview, error) {
	var out wire.PreviewBody
	err := c.call(ctx, http.MethodGet, storagePath(host, "/cascade-preview?radius="+url.QueryEscape(strings.Join(radius, ","))), nil, &out)
	return out.Preview, err
}

// Episodes gives episodes to use, a page at a time, the newest first; of one host, or with "" of all.
func (c *Client) Episodes(ctx context.Context, host string, open bool, limit int, use func([]wire.Episode) error) error {
	q := url.Values{}
	if host != "" {
		q.Set("host", host)
	}
	if open {
		q.Set("open", "true")
	}
	for left := limit; ; {
		if limit > 0 {
			q.Set("limit", strconv.Itoa(left))
		}
		var page wire.EpisodesBody
		if err := c.call(ctx, http.MethodGet, "/ext/episodes?"+q.Encode(), nil, &page); err != nil || len(page.Episodes) == 0 {
			return err
		}
		if err := use(page.Episodes); err != nil {
			return err
		}
		if left -= len(page.Episodes); limit > 0 && left <= 0 {
			return nil
		}
		q.Set("marker", page.Episodes[len(page.Episodes)-1].UUID)
	}
}

// Episode shows one with its runs and items.
func (c *Client) Episode(ctx context.Context, id string) (wire.EpisodeDetails, error) {
	return c.episode(ctx, http.MethodGet, "/ext/episodes/"+url.PathEscape(id), nil)
}

// HoldEpisode holds an episode's cascade; with off it lets it go on, past the brakes.
func (c *Client) HoldEpisode(ctx context.Context, id string, off bool, reason string) (wire.EpisodeDetails, error) {
	return c.episode(ctx, http.MethodPost, "/ext/episodes/"+url.PathEscape(id)+"/"+holdOr(off), Words{Reason: reason}.body())
}

func (c *Client) episode(ctx context.Context, method, path string, body any) (wire.EpisodeDetails, error) {
	var out wire.EpisodeBody
	err := c.call(ctx, method, path, body, &out)
	return out.Episode, err
}

// StorageActions returns what the option says, and by their uuids the segments that are treated otherwise; of one segment alone, where that
// is named.
func (c *Client) StorageActions(ctx context.Context, segment string) (option string, own map[string]string, err error) {
	own = map[string]string{}
	q := url.Values{}
	if segment != "" {
		q.Set("segment", segment)
	}
	for {
		var page wire.StorageActions
		if err := c.call(ctx, http.MethodGet, "/ext/segments?"+q.Encode(), nil, &page); err != nil {
			return "", nil, err
		}
		for _, s := range page.Segments {
			own[s.UUID] = s.Action
		}
		if len(page.Segments) == 0 || segment != "" {
			return page.Default, own, nil
		}
		q.Set("marker", page.Segments[len(page.Segments)-1].UUID)
	}
}

// SetStorageAction says what happens to the instances of a segment's hosts whose storage fails: error, evacuate, or "" for what the
// option says.
func (c *Client) SetStorageAction(ctx context.Context, segment, action string) error {
	return c.call(ctx, http.MethodPost, "/ext/segments/"+url.PathEscape(segment)+"/storage-failure-action", map[string]any{"action": action}, nil)
}
