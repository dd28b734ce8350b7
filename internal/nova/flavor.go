package nova

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/salvor-ha/salvor/internal/ha"
)

// flavor is a server's flavor as Nova embeds it from 2.47 on.
type flavor struct {
	Name      string            `json:"original_name"`
	VCPUs     int64             `json:"vcpus"`
	RAM       int64             `json:"ram"`       // MB
	Disk      int64             `json:"disk"`      // GB
	Ephemeral int64             `json:"ephemeral"` // GB
	Swap      json.RawMessage   `json:"swap"`      // MB; some versions write "" for none
	Extra     map[string]string `json:"extra_specs"`
}

// needs are the resources that Nova asks Placement for when it schedules such a server: those of the flavor's numbers, unless its
// extra specs say otherwise. What only Nova's own filters heed (NUMA, PCI, groups) is not in it.
func (f flavor) needs(imageBooted bool) ha.Needs {
	if f.RAM <= 0 {
		return ha.Needs{}
	}
	swap, _ := strconv.ParseInt(strings.Trim(string(f.Swap), `"`), 10, 64) // not a number: none
	disk := f.Ephemeral + (swap+1023)/1024
	if imageBooted {
		disk += f.Disk
	}
	cpus := "VCPU"
	if f.Extra["hw:cpu_policy"] == "dedicated" {
		cpus = "PCPU"
	}
	amounts := map[string]int64{cpus: f.VCPUs, "MEMORY_MB": f.RAM, "DISK_GB": disk}
	var traits []string
	for key, value := range f.Extra {
		if class, ok := strings.CutPrefix(key, "resources:"); ok {
			if n, err := strconv.ParseInt(value, 10, 64); err == nil {
				amounts[class] = n
			}
		}
		if trait, ok := strings.CutPrefix(key, "trait:"); ok {
			switch value {
			case "required":
				traits = append(traits, trait)
			case "forbidden":
				traits = append(traits, "!"+trait)
			}
		}
	}
	return ha.NeedsOf(amounts, traits)
}
