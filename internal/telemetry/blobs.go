package telemetry

import "github.com/prometheus/client_golang/prometheus"

// blobMetrics are about blobs and their copies.
type blobMetrics struct {
	blobs     *prometheus.GaugeVec
	bytes     *prometheus.GaugeVec
	transfers prometheus.Gauge
	left      prometheus.Gauge
}

func (m *Metrics) makeBlobs() {
	m.blob = blobMetrics{
		blobs:     m.gauges("blobs", "Blobs of the catalogue, by durability: ok, under, at_risk, lost.", "durability"),
		bytes:     m.gauges("blob_bytes", "Their sizes in all.", "durability"),
		transfers: m.gauge("blob_transfers", "Copies of blobs that are ordered and have not ended.", nil),
		left:      m.gauge("blob_transfer_bytes_left", "Bytes of them that have not arrived.", nil),
	}
}

// Blobs says how many blobs there are of a durability, and their sizes in all.
func (m *Metrics) Blobs(durability string, n, bytes int64) {
	m.blob.blobs.WithLabelValues(durability).Set(float64(n))
	m.blob.bytes.WithLabelValues(durability).Set(float64(bytes))
}

// BlobTransfers says how many copies are under way, and how many bytes of them have not arrived.
func (m *Metrics) BlobTransfers(n, left int64) {
	m.blob.transfers.Set(float64(n))
	m.blob.left.Set(float64(left))
}
