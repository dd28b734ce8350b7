package telemetry

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

var doctorChecks = prometheus.NewDesc(namespace+"_doctor_checks", "What the latest examination of this engine found, by check and state (ok, warn, fail).", []string{"check", "state"}, nil)

// Doctor counts findings by check and state. It is a collector of its own, so that no scrape sees half of an examination.
type Doctor struct {
	mu    sync.Mutex
	found map[[2]string]int
}

// Doctor shows what examinations found. It is called once.
func (m *Metrics) Doctor() *Doctor {
	d := &Doctor{found: map[[2]string]int{}}
	m.registry.MustRegister(d)
	return d
}

// Found takes the place of what was found before.
func (d *Doctor) Found(count map[[2]string]int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.found = count
}

// Describe is prometheus.Collector's.
func (d *Doctor) Describe(to chan<- *prometheus.Desc) { to <- doctorChecks }

// Collect is prometheus.Collector's.
func (d *Doctor) Collect(to chan<- prometheus.Metric) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, n := range d.found {
		to <- prometheus.MustNewConstMetric(doctorChecks, prometheus.GaugeValue, float64(n), key[0], key[1])
	}
}
