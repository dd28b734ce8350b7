package telemetry

import "github.com/prometheus/client_golang/prometheus"

// storageMetrics are about the storage of hosts and its episodes.
type storageMetrics struct {
	hosts    *prometheus.GaugeVec
	episodes *prometheus.GaugeVec
}

func (m *Metrics) makeStorage() {
	m.storage = storageMetrics{
		hosts:    m.gauges("storage_hosts", "Hosts whose agent has reported, by the state of their storage: ok, error, missing (the agent is silent).", "state"),
		episodes: m.gauges("storage_episodes", "Episodes that nobody has cleared: open, and of those held by an operator or by a brake.", "state"),
	}
}

// StorageHosts says how many hosts are in a state, StorageEpisodes how many open episodes are.
func (m *Metrics) StorageHosts(state string, n int) {
	m.storage.hosts.WithLabelValues(state).Set(float64(n))
}

func (m *Metrics) StorageEpisodes(state string, n int) {
	m.storage.episodes.WithLabelValues(state).Set(float64(n))
}
