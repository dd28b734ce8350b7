package memstore

import "github.com/salvor-ha/salvor/internal/ha"

// suspectLocations makes a batch of a host's copies suspect and returns them, by their ids in order. The seam to the catalogue of blobs.
func (t *tx) suspectLocations(ha.SuspectLocations) ([]ha.Location, error) { return nil, nil }

// reportBlobs takes in what an agent says of its copies and transfers. The seam to the catalogue of blobs.
func (t *tx) reportBlobs(ha.AgentReport) error { return nil }
