package api

import (
	"encoding/hex"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/policy"
	"github.com/salvor-ha/salvor/internal/service"
	"github.com/salvor-ha/salvor/internal/wire"
)

// agentPaths is where a host's own key is looked at, and nowhere else.
const agentPaths = "/v1/ext/agents/"

// answerWithin is what is left of a request's time when a wait for orders ends.
const answerWithin = 5 * time.Second

// authenticate finds out who sends a request. A host's key is judged by the action: it says which host it is for.
func (a *api) authenticate(c *call, r *http.Request) (policy.Identity, bool, error) {
	if key := r.Header.Get(wire.AgentKeyHeader); key != "" && strings.HasPrefix(r.URL.Path, agentPaths) {
		c.agentKey = key
		return policy.Identity{UserID: "agent"}, true, nil
	}
	return a.auth.Authenticate(r)
}

// speaksFor is the host of the path, if the caller may speak for it.
func (a *api) speaksFor(c *call) (ha.Host, error) {
	by := service.Speaker{Key: c.agentKey, UserID: c.user.UserID}
	rule := policy.ExtRule("agents", c.op.Action)
	by.Any = c.agentKey == "" && a.policy.Allows(rule, c.user)
	h, err := a.service.Speaks(c.ctx, c.params["host"], by)
	if errors.Is(err, service.ErrNotSpeaker) {
		a.cfg.Log.WarnContext(c.ctx, "somebody who may not speak for a host was refused", "host", c.params["host"], "user", c.user.UserID,
			"by_key", c.agentKey != "", "request_id", c.id)
		if c.agentKey != "" {
			return h, faultf(http.StatusForbidden, "The agent key that was sent is not that of this host, or a newer one has made it void: "+
				"make another (salvor host agent-key HOST) and put it into the agent's key_file.")
		}
		return h, faultf(http.StatusForbidden, "This caller may not speak for this host: it needs the host's agent key, a user that is bound to the host, or %s.", rule)
	}
	return h, err
}

func reportOfAgent(a *api, c *call) (any, error) {
	r, err := c.body.AgentReport()
	if err != nil {
		return nil, err
	}
	h, err := a.speaksFor(c)
	if err != nil {
		return nil, err
	}
	accepted, orders, err := a.service.ReportStorage(c.ctx, h, r.HA(h.UUID))
	if err != nil {
		return nil, err
	}
	return wire.NewAgentAnswer(h.UUID, accepted.Health.State, hex.EncodeToString(accepted.TicketKey), orders), nil
}

func ordersOfAgent(a *api, c *call) (any, error) {
	h, err := a.speaksFor(c)
	if err != nil {
		return nil, err
	}
	wait, known, err := a.list(c).AgentOrders()
	if err != nil {
		return nil, err
	}
	if known == "" {
		wait = 0
	}
	orders, err := a.service.WaitOrders(c.ctx, h, min(wait, a.cfg.RequestTimeout-answerWithin), func(orders []ha.AgentOrder) bool {
		return wire.NewAgentOrders(orders).Version != known
	})
	return wire.NewAgentOrders(orders), err
}

func showHealth(a *api, c *call) (any, error) {
	if err := a.allow(c, policy.ExtRule("health", "detail")); err != nil {
		return nil, err
	}
	return a.health(c)
}

func (a *api) health(c *call) (any, error) {
	h, health, open, agent, err := a.service.StorageHealth(c.ctx, c.params["host"])
	if err != nil {
		return nil, err
	}
	return wire.NewHealth(h, health, open, agent), nil
}

// storageOrder reads the body of an order and asks the policy.
func (a *api) storageOrder(c *call, resource string) (wire.StorageOrder, error) {
	o, err := c.body.StorageOrderOf(c.op.Action)
	if err != nil {
		return o, err
	}
	return o, a.allow(c, policy.ExtRule(resource, c.op.Action))
}

func clearHealth(a *api, c *call) (any, error) {
	o, err := a.storageOrder(c, "health")
	if err != nil {
		return nil, err
	}
	d, err := a.service.ClearStorage(c.ctx, c.params["host"], ha.Clear{By: c.user.Name(), Reason: o.Reason, ResetInstances: o.ResetInstances, Force: o.Force})
	return wire.NewEpisode(d), err
}

func failHealth(a *api, c *call) (any, error) {
	o, err := a.storageOrder(c, "health")
	if err != nil {
		return nil, err
	}
	d, err := a.service.FailStorage(c.ctx, c.params["host"], ha.Fail{By: c.user.Name(), Reason: o.Reason, Radius: o.Radius})
	return wire.NewEpisode(d), err
}

func holdHealth(a *api, c *call) (any, error) {
	o, err := a.storageOrder(c, "health")
	if err != nil {
		return nil, err
	}
	if err := a.service.HoldHost(c.ctx, c.params["host"], ha.Hold{Off: c.op.Action == "resume", By: c.user.Name(), Reason: o.Reason}); err != nil {
		return nil, err
	}
	return a.health(c)
}

func newAgentKey(a *api, c *call) (any, error) {
	if _, err := a.storageOrder(c, "agents"); err != nil {
		return nil, err
	}
	h, key, err := a.service.NewAgentKey(c.ctx, c.params["host"], c.user.Name())
	return wire.AgentKeyBody{AgentKey: wire.AgentKey{Host: h.Name, Key: key}}, err
}

func bindAgentUser(a *api, c *call) (any, error) {
	o, err := a.storageOrder(c, "agents")
	if err != nil {
		return nil, err
	}
	if err := a.service.BindAgentUser(c.ctx, c.params["host"], o.UserID, c.user.Name()); err != nil {
		return nil, err
	}
	return a.health(c)
}

func previewCascade(a *api, c *call) (any, error) {
	if err := a.allow(c, policy.ExtRule("health", "preview")); err != nil {
		return nil, err
	}
	radius, err := a.list(c).Radius()
	if err != nil {
		return nil, err
	}
	p, err := a.service.CascadePreview(c.ctx, c.params["host"], radius)
	if err != nil {
		return nil, err
	}
	out := wire.CascadePreview{Host: p.Host.Name, Radius: []string{}, Action: p.Action, Instances: []wire.PreviewInstance{}, Blobs: p.Blobs, BlobsMore: p.More}
	if p.Held != "" {
		out.Held = &p.Held
	}
	for _, k := range p.Radius {
		out.Radius = append(out.Radius, string(k))
	}
	for _, i := range p.Instances {
		out.Instances = append(out.Instances, wire.PreviewInstance{UUID: i.ID, Name: i.Server.Name, VMState: i.VMState, What: i.What, Why: i.Why})
	}
	return wire.PreviewBody{Preview: out}, nil
}

func listEpisodes(a *api, c *call) (any, error) {
	if err := a.allow(c, policy.ExtRule("episodes", "index")); err != nil {
		return nil, err
	}
	f, host, limit, marker, err := a.list(c).EpisodeList()
	if err != nil {
		return nil, err
	}
	episodes, err := a.service.Episodes(c.ctx, f, host, limit, marker)
	return wire.NewEpisodes(episodes), err
}

func showEpisode(a *api, c *call) (any, error) {
	if err := a.allow(c, policy.ExtRule("episodes", "detail")); err != nil {
		return nil, err
	}
	d, err := a.service.Episode(c.ctx, c.params["episode_id"])
	return wire.NewEpisode(d), err
}

func holdEpisode(a *api, c *call) (any, error) {
	o, err := a.storageOrder(c, "episodes")
	if err != nil {
		return nil, err
	}
	d, err := a.service.HoldEpisode(c.ctx, c.params["episode_id"], ha.Hold{Off: c.op.Action == "resume", By: c.user.Name(), Reason: o.Reason})
	return wire.NewEpisode(d), err
}

func setStorageAction(a *api, c *call) (any, error) {
	o, err := a.storageOrder(c, "segments")
	if err != nil {
		return nil, err
	}
	return nil, a.service.SetStorageAction(c.ctx, c.params["segment_id"], o.Action)
}

func listStorageActions(a *api, c *call) (any, error) {
	if err := a.allow(c, policy.ExtRule("segments", "index")); err != nil {
		return nil, err
	}
	segment, limit, marker, err := a.list(c).StorageActionList()
	if err != nil {
		return nil, err
	}
	option, own, err := a.service.StorageActions(c.ctx, segment, limit, marker)
	return wire.NewStorageActions(option, own), err
}

// storageRoutes are those of storage health.
func storageRoutes(line func(method, path, act string, status int, do action) route) []route {
	const host = "hosts/{host}/health"
	rows := []route{
		line(http.MethodPost, "agents/{host}/report", "report", http.StatusOK, reportOfAgent),
		line(http.MethodGet, "agents/{host}/orders", "orders", http.StatusOK, ordersOfAgent),
		line(http.MethodGet, host, "health", http.StatusOK, showHealth),
		line(http.MethodPost, host+"/clear", "clear", http.StatusAccepted, clearHealth),
		line(http.MethodPost, host+"/error", "fail", http.StatusAccepted, failHealth),
		line(http.MethodPost, "hosts/{host}/agent-key", "agent-key", http.StatusCreated, newAgentKey),
		line(http.MethodPost, "hosts/{host}/agent-user", "agent-user", http.StatusAccepted, bindAgentUser),
		line(http.MethodGet, "hosts/{host}/cascade-preview", "preview", http.StatusOK, previewCascade),
		line(http.MethodGet, "episodes", "episodes", http.StatusOK, listEpisodes),
		line(http.MethodGet, "episodes/{episode_id}", "episode", http.StatusOK, showEpisode),
		line(http.MethodGet, "segments", "segments", http.StatusOK, listStorageActions),
		line(http.MethodPost, "segments/{segment_id}/storage-failure-action", "storage-failure-action", http.StatusNoContent, setStorageAction),
	}
	for _, order := range []string{"hold", "resume"} {
		rows = append(rows, line(http.MethodPost, host+"/"+order, order, http.StatusAccepted, holdHealth),
			line(http.MethodPost, "episodes/{episode_id}/"+order, order, http.StatusAccepted, holdEpisode))
	}
	return rows
}
