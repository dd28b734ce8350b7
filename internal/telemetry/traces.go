package telemetry

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Traces sends spans to an OpenTelemetry collector. A nil *Traces records nothing and costs nothing.
type Traces struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// NewTraces sends to address, a collector's whole address by OTLP over HTTP. Nothing is connected yet: a collector that is away
// costs its spans and a line in the log, never the work. Close ends it.
func NewTraces(ctx context.Context, address, version, process string, log *slog.Logger) (*Traces, error) {
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(address))
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	about := resource.NewSchemaless(attribute.String("service.name", namespace), attribute.String("service.version", version),
		attribute.String("service.instance.id", process))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(logged{exporter, log}), sdktrace.WithResource(about))
	return &Traces{provider: provider, tracer: provider.Tracer("salvor")}, nil
}

// logged says what could not be sent in the process's own log, and not on OpenTelemetry's global one.
type logged struct {
	*otlptrace.Exporter
	log *slog.Logger
}

func (l logged) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := l.Exporter.ExportSpans(ctx, spans); err != nil {
		var where *url.Error
		if errors.As(err, &where) {
			err = where.Err // its text repeats the URL, which may hold a key
		}
		l.log.Warn("spans are lost: the collector of traces did not take them", "spans", len(spans), "error", err)
	}
	return nil
}

// Close sends what waits, for as long as ctx lasts.
func (t *Traces) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// Recovery begins a span of an owner's work on a recovery. The trace's id is the notification's uuid without its dashes, in each
// process: what a second owner does stands in the same trace as what the first one did. end takes how it ended.
func (t *Traces) Recovery(ctx context.Context, notification, name string, attributes ...string) (_ context.Context, end func(string)) {
	if t == nil {
		return ctx, func(string) {}
	}
	if raw, err := hex.DecodeString(strings.ReplaceAll(notification, "-", "")); err == nil && len(raw) == len(trace.TraceID{}) {
		id := trace.TraceID(raw)
		root := trace.SpanContextConfig{TraceID: id, SpanID: trace.SpanID(raw[8:]), TraceFlags: trace.FlagsSampled, Remote: true}
		ctx = trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(root))
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithAttributes(pairs(attributes)...))
	return ctx, func(outcome string) {
		span.SetAttributes(attribute.String("outcome", outcome))
		span.End()
	}
}

// Step begins a span within ctx's, such as one call to Nova; without one in ctx it records nothing. end takes the class of the
// error that it ended with, "" for none.
func (t *Traces) Step(ctx context.Context, name string, attributes ...string) (_ context.Context, end func(class string)) {
	if t == nil || !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, func(string) {}
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithAttributes(pairs(attributes)...)) //nolint:spancheck // end does
	return ctx, func(class string) {                                                   //nolint:spancheck // as said
		if class != "" {
			span.SetStatus(codes.Error, class)
		}
		span.End()
	}
}

// pairs are attributes of names and values by turns; those without a value are left out.
func pairs(of []string) []attribute.KeyValue {
	var list []attribute.KeyValue
	for i := 0; i+1 < len(of); i += 2 {
		if of[i+1] != "" {
			list = append(list, attribute.String(of[i], of[i+1]))
		}
	}
	return list
}
