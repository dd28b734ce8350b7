package telemetry

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics are salvor's metrics, in a registry of their own. Labels are few and known beforehand: kinds, classes, verdicts,
// routes; never a name of a host or an id.
type Metrics struct {
	registry *prometheus.Registry

	requests       *prometheus.CounterVec
	requestSeconds *prometheus.HistogramVec
	admissions     *prometheus.CounterVec
	notifications  *prometheus.CounterVec
	units          prometheus.Gauge
	limit          prometheus.Gauge
	beats          *prometheus.CounterVec
	claims         *prometheus.CounterVec
	holds          *prometheus.CounterVec
	acts           *prometheus.CounterVec
	actSeconds     *prometheus.HistogramVec
	calls          *prometheus.CounterVec
	callSeconds    *prometheus.HistogramVec
	moves          *prometheus.CounterVec
	recoveries     *prometheus.HistogramVec
	alarms         *prometheus.CounterVec
	shipped        *prometheus.CounterVec
	shipFailures   *prometheus.CounterVec
	shipDropped    *prometheus.CounterVec
	outbox         *prometheus.GaugeVec
	outboxAge      *prometheus.GaugeVec
	unprotected    *prometheus.GaugeVec // without labels; empty while this engine does not count
	blob           blobMetrics
	storage        storageMetrics
}

var (
	callBuckets     = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	recoveryBuckets = []float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 14400, 86400}
)

// NewMetrics makes the registry, with Go's and the process's own metrics.
func NewMetrics(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.gauge("build_info", "1, with the version of this process.", prometheus.Labels{"version": version}).Set(1)

	m.requests = m.counter("api_requests_total", "Requests that the API answered.", "route", "method", "status")
	m.requestSeconds = m.histogram("api_request_seconds", "How long the API took to answer.", callBuckets, "route", "method")
	m.admissions = m.counter("admissions_total", "Reports, by what was decided upon them.", "type", "verdict")
	m.notifications = m.counter("notifications_ended_total", "Notifications that reached their end.", "type", "status")
	m.units = m.gauge("engine_units", "Units of work that this engine holds.", nil)
	m.limit = m.gauge("cloud_concurrency_limit", "Calls to Nova that may be in flight now.", nil)
	m.beats = m.counter("engine_beats_total", "Beats of this engine that the database took: one that stands still does not beat.")
	m.claims = m.counter("engine_claims_total", "Units of work that this engine claimed; takeover: from a dead one.", "kind", "takeover")
	m.holds = m.counter("gate_holds_total", "Recoveries that a gate stopped.", "gate")
	m.acts = m.counter("acts_total", "Acts on the cloud, by how they ended.", "kind", "class")
	m.actSeconds = m.histogram("act_seconds", "How long acts on the cloud took.", callBuckets, "kind")
	m.calls = m.counter("cloud_calls_total", "Calls to Nova and Placement, by how they ended.", "op", "class")
	m.callSeconds = m.histogram("cloud_call_seconds", "How long calls to Nova and Placement took.", callBuckets, "op")
	m.moves = m.counter("moves_total", "Instances of failed hosts, by what became of them.", "outcome")
	m.recoveries = m.histogram("recovery_seconds", "From the receipt of a notification to its end.", recoveryBuckets, "kind", "status")
	m.alarms = m.counter("alarms_total", "Findings that a person must look at, by kind.", "alarm")
	m.shipped = m.counter("outbox_shipped_total", "Versioned notifications that a destination has confirmed.", "to")
	m.shipFailures = m.counter("outbox_failures_total", "Tries to deliver that failed.", "to")
	m.shipDropped = m.counter("outbox_dropped_total", "Versioned notifications that were given up.", "to", "why")
	m.outbox = m.gauges("outbox_rows", "Versioned notifications that wait for a destination, where this process ships for it.", "to")
	m.outboxAge = m.gauges("outbox_oldest_seconds", "The age of the first of them.", "to")
	m.unprotected = m.gauges("unprotected_instances", "Instances that are to be protected and would not be recovered, if one engine counts them: the first of those that live.")
	m.makeBlobs()
	m.makeStorage()
	return m
}

const namespace = "salvor"

func (m *Metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) gauge(name, help string, constant prometheus.Labels) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help, ConstLabels: constant})
	m.registry.MustRegister(g)
	return g
}

func (m *Metrics) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
	m.registry.MustRegister(g)
	return g
}

func (m *Metrics) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
	m.registry.MustRegister(h)
	return h
}

// Handler serves the metrics in Prometheus' format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 10 * time.Second})
}

// classLabel names success too.
func classLabel(class string) string {
	if class == "" {
		return "ok"
	}
	return class
}

// Request counts an answered request of the API.
func (m *Metrics) Request(route, method string, status int, took time.Duration) {
	method = knownMethod(method)
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	m.requestSeconds.WithLabelValues(route, method).Observe(took.Seconds())
}

// Admission counts a report: verdict is admitted, duplicate, maintenance and so on.
func (m *Metrics) Admission(kind, verdict string) { m.admissions.WithLabelValues(kind, verdict).Inc() }

// Notification counts one that reached its end: finished, failed, ignored.
func (m *Metrics) Notification(kind, status string) {
	m.notifications.WithLabelValues(kind, status).Inc()
}

// Held counts a beat of the engine, and says how many units of work it holds and its present limit of calls to Nova.
func (m *Metrics) Held(units, limit int) {
	m.units.Set(float64(units))
	m.limit.Set(float64(limit))
	m.beats.WithLabelValues().Inc()
}

// Claim counts a claimed unit of work.
func (m *Metrics) Claim(kind string, takeover bool) {
	m.claims.WithLabelValues(kind, strconv.FormatBool(takeover)).Inc()
}

// ExpectAlarm makes the count of that kind known before there is one: an increase from nothing is none to Prometheus.
func (m *Metrics) ExpectAlarm(kind string) { m.alarms.WithLabelValues(kind) }

// Alarm counts an alarm of that kind.
func (m *Metrics) Alarm(kind string) { m.alarms.WithLabelValues(kind).Inc() }

// Hold counts a recovery that a gate stopped.
func (m *Metrics) Hold(gate string) { m.holds.WithLabelValues(gate).Inc() }

// Act counts an act on the cloud; class "" is success.
func (m *Metrics) Act(kind, class string, took time.Duration) {
	m.acts.WithLabelValues(kind, classLabel(class)).Inc()
	m.actSeconds.WithLabelValues(kind).Observe(took.Seconds())
}

// CloudCall counts a call to Nova or Placement; class "" is success.
func (m *Metrics) CloudCall(op, class string, took time.Duration) {
	m.calls.WithLabelValues(op, classLabel(class)).Inc()
	m.callSeconds.WithLabelValues(op).Observe(took.Seconds())
}

// Move counts what became of an instance: succeeded, failed, ignored.
func (m *Metrics) Move(outcome string) { m.moves.WithLabelValues(outcome).Inc() }

// Recovery observes a unit of work that ended, by kind (host, process, instance) and status.
func (m *Metrics) Recovery(kind, status string, took time.Duration) {
	m.recoveries.WithLabelValues(kind, status).Observe(took.Seconds())
}

// Shipped counts versioned notifications that a destination has confirmed.
func (m *Metrics) Shipped(to string, n int) { m.shipped.WithLabelValues(to).Add(float64(n)) }

// ShipFailed counts a try to deliver that failed.
func (m *Metrics) ShipFailed(to string) { m.shipFailures.WithLabelValues(to).Inc() }

// ShipDropped counts versioned notifications that were given up.
func (m *Metrics) ShipDropped(to, why string, n int) {
	m.shipDropped.WithLabelValues(to, why).Add(float64(n))
}

// Outbox says how many versioned notifications wait for a destination, and for how long the first has.
func (m *Metrics) Outbox(to string, rows int, oldest time.Duration) {
	m.outbox.WithLabelValues(to).Set(float64(rows))
	m.outboxAge.WithLabelValues(to).Set(oldest.Seconds())
}
