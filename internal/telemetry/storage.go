package telemetry

import "github.com/prometheus/client_golang/prometheus"

// storageMetrics are about the storage of hosts and its episodes.
type storageMetrics struct {
	hosts    *prometheus.GaugeVec
	episodes *prometheus.GaugeVec
	refused  *prometheus.CounterVec
}

func (m *Metrics) makeStorage() {
	m.storage = storageMetrics{
		hosts:    m.gauges("storage_hosts", "Hosts whose agent has reported, by the state of their storage: ok, error, missing (the agent is silent).", "state"),
		episodes: m.gauges("storage_episodes", "Episodes that nobody has cleared: open, and of those held by an operator or by a brake.", "state"),
		refused: m.counter("agent_reports_refused_total", "Reports of agents that were refused, as a later start of the same host's agent has reported: "+
			"two agents run for one host, or its clock was set back."),
	}
	m.storage.refused.WithLabelValues() // 0 from the start, so that the first ones count
}

// Unprotected says how many instances are to be protected and are not; below 0: this engine does not count them.
func (m *Metrics) Unprotected(n int) {
	if n < 0 {
		m.unprotected.Reset()
		return
	}
	m.unprotected.WithLabelValues().Set(float64(n))
}

// AgentRefused counts a report of the earlier of two agents of a host.
func (m *Metrics) AgentRefused() { m.storage.refused.WithLabelValues().Inc() }

// StorageHosts says how many hosts are in a state, StorageEpisodes how many open episodes are.
func (m *Metrics) StorageHosts(state string, n int) {
	m.storage.hosts.WithLabelValues(state).Set(float64(n))
}

func (m *Metrics) StorageEpisodes(state string, n int) {
	m.storage.episodes.WithLabelValues(state).Set(float64(n))
}
