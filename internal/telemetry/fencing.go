package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Fencing is how a host's fencing is, by its latest rehearsal.
type Fencing string

const (
	FencingReady    Fencing = "ready"    // every method would work
	FencingDegraded Fencing = "degraded" // one would, another would not
	FencingFailing  Fencing = "failing"  // none would
	FencingNone     Fencing = "none"     // no method is configured
)

var (
	fencingAge   = prometheus.NewDesc(namespace+"_fencing_rehearsal_age_seconds", "How long ago fencing last worked in a rehearsal, of the host for which that is longest.", nil, nil)
	fencingHosts = prometheus.NewDesc(namespace+"_fencing_hosts", "Registered hosts by how their fencing is.", []string{"state"}, nil)
)

// Fencing shows what the rehearsals of fencing came to; read is asked at each scrape. It is called once.
func (m *Metrics) Fencing(read func() (hosts map[Fencing]int, oldest time.Duration)) {
	m.registry.MustRegister(fencingCollector{read})
}

type fencingCollector struct {
	read func() (map[Fencing]int, time.Duration)
}

func (c fencingCollector) Describe(to chan<- *prometheus.Desc) {
	to <- fencingAge
	to <- fencingHosts
}

func (c fencingCollector) Collect(to chan<- prometheus.Metric) {
	hosts, oldest := c.read()
	to <- prometheus.MustNewConstMetric(fencingAge, prometheus.GaugeValue, oldest.Seconds())
	for _, state := range []Fencing{FencingReady, FencingDegraded, FencingFailing, FencingNone} {
		to <- prometheus.MustNewConstMetric(fencingHosts, prometheus.GaugeValue, float64(hosts[state]), string(state))
	}
}
