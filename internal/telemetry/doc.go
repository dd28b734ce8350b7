// Package telemetry is how salvor tells what it does: log lines through log/slog, and metrics in Prometheus' format. It
// knows the forms, not the things: callers give names and durations.
package telemetry
