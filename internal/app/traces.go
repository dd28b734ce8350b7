package app

import (
	"context"
	"time"

	"github.com/salvor-ha/salvor/internal/engine"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/telemetry"
)

// lastSpans is how long a stop waits for a collector of traces.
const lastSpans = 2 * time.Second

// makeTraces begins to trace if the file says where to. Its part ends after those of which it tells.
func (b *builder) makeTraces(ctx context.Context) error {
	if b.cfg.Salvor.TraceURL == "" || b.role == roleAPI {
		return nil
	}
	t, err := telemetry.NewTraces(ctx, b.cfg.Salvor.TraceURL, Version, b.cfg.Engine.Host, b.log)
	if err != nil {
		return err
	}
	b.traces = t
	return nil
}

// addTraces comes last: what other parts do until their end is sent, too.
func (b *builder) addTraces() {
	if b.traces == nil {
		return
	}
	b.app.parts = append(b.app.parts, part{"traces", func(ctx context.Context) error {
		<-ctx.Done()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSpans)
		defer cancel()
		if err := b.traces.Close(ctx); err != nil {
			b.log.Warn("the last spans are lost", "error", err)
		}
		return nil
	}})
}

// traced has an engine's observer trace, too.
func traced(o engine.Observer, t *telemetry.Traces) engine.Observer {
	if t == nil {
		return o
	}
	o.Unit = func(ctx context.Context, w ha.Work) (context.Context, func(string)) {
		return t.Recovery(ctx, w.NotificationUUID, string(w.Kind), "unit", w.Key, "notification", w.NotificationUUID, "owner", w.Owner)
	}
	o.Act = func(ctx context.Context, a ha.Act) (context.Context, func(ha.Class)) {
		ctx, end := t.Step(ctx, string(a.Kind), "host", a.Host, "instance", a.Instance, "target", a.Target)
		return ctx, func(c ha.Class) { end(string(c)) }
	}
	return o
}

// tracedCall has the calls to Nova and Placement traced, within the span of the work that they are for.
func tracedCall(t *telemetry.Traces) func(context.Context, string) (context.Context, func(ha.Class)) {
	if t == nil {
		return nil
	}
	return func(ctx context.Context, op string) (context.Context, func(ha.Class)) {
		ctx, end := t.Step(ctx, "cloud "+op)
		return ctx, func(c ha.Class) { end(string(c)) }
	}
}
