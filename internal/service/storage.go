package service

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/plan"
)

// Bounds of the wait for orders, and of what a preview counts.
const (
	ordersLook    = time.Second
	previewBlobs  = 1000
	keyBytes      = 32
	previewServer = 2000
)

// ErrNotSpeaker is what somebody gets who may not speak for a host.
var ErrNotSpeaker = errors.New("this caller may not speak for this host")

// Speaker is who says that he is a host's agent.
type Speaker struct {
	Key    string // of the host, "" when he has none
	UserID string // Keystone's
	Any    bool   // the policy lets him speak for any host
}

// Speaks returns the host if the speaker may speak for it. host is a name or a uuid. NotFoundError for one who may speak for any,
// else ErrNotSpeaker: a stranger does not learn which hosts there are.
func (s *Service) Speaks(ctx context.Context, host string, by Speaker) (ha.Host, error) {
	h, err := s.namedHost(ctx, host)
	var none *ha.NotFoundError
	if errors.As(err, &none) && !by.Any {
		return ha.Host{}, ErrNotSpeaker
	}
	if err != nil || by.Any {
		return h, err
	}
	a, err := s.store.Agent(ctx, h.UUID)
	if err != nil {
		return ha.Host{}, err
	}
	switch {
	case by.Key != "" && a.KeyHash != "" && subtle.ConstantTimeCompare([]byte(hashOf(by.Key)), []byte(a.KeyHash)) == 1:
	case by.Key == "" && by.UserID != "" && by.UserID == a.UserID:
	default:
		return ha.Host{}, ErrNotSpeaker
	}
	return h, nil
}

// namedHost finds a host by name, or by uuid.
func (s *Service) namedHost(ctx context.Context, host string) (ha.Host, error) {
	h, err := s.store.HostByName(ctx, host)
	var none *ha.NotFoundError
	if uuid, is := ha.CanonicalUUID(host); is && errors.As(err, &none) {
		return s.store.HostByUUID(ctx, uuid)
	}
	return h, err
}

func hashOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

func secret() []byte {
	b := make([]byte, keyBytes)
	_, _ = rand.Read(b) // never fails
	return b
}

// ReportStorage takes an agent's report for a host that it may speak for (Speaks), and returns what is open for it. It is durable when it
// returns. StaleEpochError.
func (s *Service) ReportStorage(ctx context.Context, host ha.Host, r ha.AgentReport) (ha.Accepted, []ha.AgentOrder, error) {
	r.HostUUID, r.EpisodeUUID, r.TicketKey = host.UUID, newUUID(), secret()
	a, err := s.store.ReportStorage(ctx, r)
	if stale := (*ha.StaleEpochError)(nil); errors.As(err, &stale) {
		s.cfg.Log.ErrorContext(ctx, "two agents speak for a host, or the clock of its agent was set back: the report of the earlier start is refused, and what "+
			"is known of the host's storage is the other's word", "host", host.Name, "epoch", stale.Epoch, "stored", stale.Stored, "url", r.URL)
	}
	if err != nil {
		return ha.Accepted{}, nil, err
	}
	if a.Opened != "" {
		s.cfg.Log.WarnContext(ctx, "the storage of a host failed", "host", host.Name, "episode", a.Opened)
		s.arrivals.expect()
	}
	if a.Opened != "" || r.MovesBlobs() {
		s.cfg.Poke()
	}
	orders, err := s.Orders(ctx, host.UUID)
	return a, orders, err
}

// WaitOrders returns what is open for a host: at once, or as soon as changed says that it differs from what its agent knows, but after wait
// at the latest.
func (s *Service) WaitOrders(ctx context.Context, host ha.Host, wait time.Duration, changed func([]ha.AgentOrder) bool) ([]ha.AgentOrder, error) {
	end := time.NewTimer(wait)
	defer end.Stop()
	looks := time.NewTicker(ordersLook)
	defer looks.Stop()
	came := s.arrivals.join(ctx, host.UUID)
	defer s.arrivals.leave(came)
	for {
		orders, err := s.Orders(ctx, host.UUID)
		if err != nil || wait <= 0 || changed(orders) {
			return orders, err
		}
		select {
		case <-came:
		case <-looks.C:
		case <-end.C:
			return orders, nil
		case <-ctx.Done():
			return orders, nil // its time is over: that nothing has come is an answer
		}
	}
}

// StorageHealth shows a host's storage: its checks, its open episode, and who may speak for it. NotFoundError.
func (s *Service) StorageHealth(ctx context.Context, host string) (ha.Host, ha.HostHealth, *ha.Episode, ha.Agent, error) {
	h, err := s.namedHost(ctx, host)
	if err != nil {
		return h, ha.HostHealth{}, nil, ha.Agent{}, err
	}
	health, open, err := s.store.StorageHealth(ctx, h.UUID)
	if err != nil {
		return h, health, nil, ha.Agent{}, err
	}
	a, err := s.store.Agent(ctx, h.UUID)
	return h, health, open, a, err
}

// ClearStorage is an operator's word that a host's storage is good again. ConflictError while its agent still reports failure and nobody
// forces it, and where nothing is open; NotFoundError.
func (s *Service) ClearStorage(ctx context.Context, host string, c ha.Clear) (ha.EpisodeDetails, error) {
	h, err := s.namedHost(ctx, host)
	if err != nil {
		return ha.EpisodeDetails{}, err
	}
	c.HostUUID = h.UUID
	e, err := s.store.ClearStorage(ctx, c)
	if err != nil {
		return ha.EpisodeDetails{}, err
	}
	s.cfg.Log.WarnContext(ctx, "an operator clears an episode", "host", h.Name, "episode", e.UUID, "by", c.By, "reason", c.Reason, "force", c.Force,
		"reset_instances", c.ResetInstances)
	s.cfg.Poke()
	return s.store.Episode(ctx, e.UUID)
}

// FailStorage is an operator's word that a host's storage is broken, or what its failure reaches. NotFoundError.
func (s *Service) FailStorage(ctx context.Context, host string, f ha.Fail) (ha.EpisodeDetails, error) {
	h, err := s.namedHost(ctx, host)
	if err != nil {
		return ha.EpisodeDetails{}, err
	}
	f.HostUUID, f.EpisodeUUID = h.UUID, newUUID()
	e, err := s.store.FailStorage(ctx, f)
	if err != nil {
		return ha.EpisodeDetails{}, err
	}
	s.cfg.Log.WarnContext(ctx, "an operator says that a host's storage failed", "host", h.Name, "episode", e.UUID, "by", f.By, "reason", f.Reason,
		"radius", ha.JoinKinds(f.Radius))
	s.cfg.Poke()
	return s.store.Episode(ctx, e.UUID)
}

// Episodes lists episodes, the newest first, of a host (a name) or of all. NotFoundError of the host, MarkerError.
func (s *Service) Episodes(ctx context.Context, f ha.EpisodeFilter, host string, limit int, marker string) ([]ha.Episode, error) {
	if host != "" {
		h, err := s.namedHost(ctx, host)
		if err != nil {
			return nil, err
		}
		f.HostUUID = &h.UUID
	}
	return s.store.Episodes(ctx, f, limit, marker)
}

// Episode shows one. NotFoundError.
func (s *Service) Episode(ctx context.Context, id string) (ha.EpisodeDetails, error) {
	uuid, err := canonical(ha.KindEpisode, id)
	if err != nil {
		return ha.EpisodeDetails{}, err
	}
	return s.store.Episode(ctx, uuid)
}

// HoldEpisode holds an episode's cascade, or lets it go on and pass the brakes. NotFoundError, ConflictError.
func (s *Service) HoldEpisode(ctx context.Context, id string, h ha.Hold) (ha.EpisodeDetails, error) {
	uuid, err := canonical(ha.KindEpisode, id)
	if err != nil {
		return ha.EpisodeDetails{}, err
	}
	h.EpisodeUUID = uuid
	if err := s.hold(ctx, h); err != nil {
		return ha.EpisodeDetails{}, err
	}
	return s.store.Episode(ctx, uuid)
}

// HoldHost is the switch of a host: while it is on, the cascades of its episodes are held, also of those to come. NotFoundError.
func (s *Service) HoldHost(ctx context.Context, host string, h ha.Hold) error {
	at, err := s.namedHost(ctx, host)
	if err != nil {
		return err
	}
	h.HostUUID = at.UUID
	return s.hold(ctx, h)
}

func (s *Service) hold(ctx context.Context, h ha.Hold) error {
	if err := s.store.HoldStorage(ctx, h); err != nil {
		return err
	}
	s.cfg.Log.WarnContext(ctx, "an operator holds a cascade, or lets it go on", "episode", h.EpisodeUUID, "host", h.HostUUID, "on", !h.Off, "by", h.By, "reason", h.Reason)
	s.cfg.Poke()
	return nil
}

// NewAgentKey makes a host's key; the former one is void at once. Only its hash is kept. NotFoundError.
func (s *Service) NewAgentKey(ctx context.Context, host, by string) (ha.Host, string, error) {
	h, err := s.namedHost(ctx, host)
	if err != nil {
		return h, "", err
	}
	key := base64.RawURLEncoding.EncodeToString(secret())
	err = s.store.SetAgentKey(ctx, h.UUID, hashOf(key), by, secret())
	if err == nil {
		s.cfg.Log.WarnContext(ctx, "a host has a new agent key", "host", h.Name, "by", by)
	}
	return h, key, err
}

// BindAgentUser lets a Keystone user speak for a host; with "" nobody but its key. NotFoundError.
func (s *Service) BindAgentUser(ctx context.Context, host, user, by string) error {
	h, err := s.namedHost(ctx, host)
	if err != nil {
		return err
	}
	if err := s.store.SetAgentUser(ctx, h.UUID, user, by, secret()); err != nil {
		return err
	}
	s.cfg.Log.WarnContext(ctx, "a user may speak for a host", "host", h.Name, "user", user, "by", by)
	return nil
}

// SetStorageAction says what happens to the instances of a segment's hosts whose storage fails; "" as the option says. NotFoundError.
func (s *Service) SetStorageAction(ctx context.Context, segment, action string) error {
	uuid, err := canonical(ha.KindSegment, segment)
	if err != nil {
		return err
	}
	return s.store.SetStorageAction(ctx, uuid, action)
}

// StorageActions returns what the option says, and who is treated otherwise: the segments with an action of their own, at most limit, by uuid
// and behind the marker; or of one segment alone, where that is named (NotFoundError).
func (s *Service) StorageActions(ctx context.Context, segment string, limit int, marker string) (option string, own []ha.StorageAction, err error) {
	option = s.cfg.Rules.StorageAction
	if segment == "" {
		own, err = s.store.StorageActions(ctx, marker, limit)
		return option, own, err
	}
	found, err := s.Segment(ctx, segment)
	if err != nil {
		return option, nil, err
	}
	action, err := s.store.StorageAction(ctx, found.UUID)
	if err == nil && action != "" {
		own = []ha.StorageAction{{SegmentUUID: found.UUID, Action: action}}
	}
	return option, own, err
}

// Preview is what a cascade of a host with that radius would do now.
type Preview struct {
	Host      ha.Host
	Radius    []ha.ObjectKind
	Action    string
	Held      string // what would hold it, as far as the rows tell
	Instances []PreviewInstance
	Blobs     int
	More      bool // more blobs than were counted
}

// PreviewInstance is one instance, and what would be done with it: error, evacuate, skip or wait.
type PreviewInstance struct {
	ha.Server
	What, Why string
}

// CascadePreview looks, and changes nothing. NotFoundError of the host; CloudError when Nova cannot be asked.
func (s *Service) CascadePreview(ctx context.Context, host string, radius []ha.ObjectKind) (Preview, error) {
	h, err := s.namedHost(ctx, host)
	if err != nil {
		return Preview{}, err
	}
	health, open, err := s.store.StorageHealth(ctx, h.UUID)
	if err != nil {
		return Preview{}, err
	}
	action, err := s.store.StorageAction(ctx, h.SegmentUUID)
	if err != nil {
		return Preview{}, err
	}
	if action == "" {
		action = s.cfg.Rules.StorageAction
	}
	p := Preview{Host: h, Radius: radius, Action: action}
	switch {
	case open != nil && open.Held.By != "":
		p.Held = "its episode is held by " + open.Held.By
	case open != nil && open.Braked != "":
		p.Held = open.Braked
	case health.Held.By != "":
		p.Held = "the host's cascades are held by " + health.Held.By
	}
	held, _ := s.evacuation(h.Name, action)
	if p.Held == "" && slices.Contains(radius, ha.ObjectInstance) {
		p.Held = held
	}
	for _, k := range radius {
		switch k {
		case ha.ObjectInstance:
			if p.Instances, err = s.previewInstances(ctx, h, action); err != nil {
				return Preview{}, err
			}
		case ha.ObjectBlob:
			blobs, err := s.store.Blobs(ctx, ha.BlobFilter{HostUUID: &h.UUID}, previewBlobs+1, "")
			if err != nil {
				return Preview{}, err
			}
			p.Blobs, p.More = min(len(blobs), previewBlobs), len(blobs) > previewBlobs
		}
	}
	return p, nil
}

// evacuation says what keeps the instances of a host from being evacuated for its storage, or that it is not known whether anything does.
// Of another action it says nothing.
func (s *Service) evacuation(host, action string) (held, doubt string) {
	switch can, known := s.fenced(host); {
	case action != "evacuate" || can:
		return "", ""
	case !known:
		return "", "if the host can be fenced, which is not known here: set [salvor] fencing_file for the api, too"
	default:
		return plan.EvacuationHeld(host), ""
	}
}

func (s *Service) previewInstances(ctx context.Context, h ha.Host, action string) ([]PreviewInstance, error) {
	if s.cfg.Cloud == nil {
		return nil, &ha.CloudError{Class: ha.ClassNotSent, Op: "servers", Text: "no Nova is configured"}
	}
	servers, err := s.cfg.Cloud.Servers(ctx, h.Name)
	if err != nil {
		return nil, err
	}
	held, doubt := s.evacuation(h.Name, action)
	list := make([]PreviewInstance, 0, min(len(servers), previewServer))
	for _, srv := range servers[:min(len(servers), previewServer)] {
		p := PreviewInstance{Server: srv, What: action}
		if skip, wait := plan.StorageOutlook(srv); skip != "" {
			p.What, p.Why = "skip", skip
		} else if wait != "" {
			p.What, p.Why = "wait", "in transition: "+wait
		} else if held != "" {
			p.What, p.Why = "wait", held
		} else {
			p.Why = doubt
		}
		list = append(list, p)
	}
	return list, nil
}
