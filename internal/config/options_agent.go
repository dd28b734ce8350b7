package config

import "time"

// Agent are the options of `salvor agent`, which runs on a hypervisor and needs no other group but for the log.
type Agent struct {
	Host           string // "": [DEFAULT] host
	APIURL         string
	KeyFile        string
	Cloud          string
	CAFile         string // of the API's certificate
	StateDirectory string
	Resources      []string // NAME:PATH:KINDS
	ProbeInterval  time.Duration
	WriteInterval  time.Duration
	ProbeTimeout   time.Duration
	ReportInterval time.Duration
	BlobDirectory  string // "": the host holds no blobs
	Listen         string // "": nothing is served
	URL            string
	FailureDomain  string // "": the host's own
	CertFile       string
	SSLKeyFile     string
	SSLCAFile      string
	VerifyInterval time.Duration
	VerifyRate     int // MiB a second; 0: no limit
	CopiesIn       int
	CopiesOut      int
}

func agentOptions() []Option {
	const g = "agent"
	span := func(name string, low, high float64, def string, field func(*Agent) *time.Duration, help string) Option {
		return define(g, name, fraction(low, high), def, func(c *Config) *time.Duration { return field(&c.Agent) }, help)
	}
	words := func(name, def string, field func(*Agent) *string, help string, with ...func(*Option)) Option {
		return define(g, name, text(), def, func(c *Config) *string { return field(&c.Agent) }, help, with...)
	}
	number := func(name string, low, high int, def string, field func(*Agent) *int, help string) Option {
		return define(g, name, integer(low, high), def, func(c *Config) *int { return field(&c.Agent) }, help)
	}
	return []Option{
		words("host", "", func(a *Agent) *string { return &a.Host },
			"The host that the agent speaks for, by the name with which it is registered in salvor; empty: [DEFAULT] host.", shown("[DEFAULT] host")),
		define(g, "api_url", webURL(), "", func(c *Config) *string { return &c.Agent.APIURL },
			"salvor's API; empty: where Keystone's catalog has it."),
		words("key_file", "", func(a *Agent) *string { return &a.KeyFile },
			"A file with this host's agent key (salvor host agent-key HOST), which only its owner may read. It is read for each request, so that a "+
				"new key counts at once. Empty: the agent is a Keystone user, "+
				"by a cloud of clouds.yaml or the variables OS_*."),
		words("cloud", "", func(a *Agent) *string { return &a.Cloud },
			"The Keystone user's cloud in clouds.yaml; empty: OS_CLOUD, or the variables OS_*. Not used with key_file."),
		words("cafile", "", func(a *Agent) *string { return &a.CAFile },
			"Certificates of authorities by which the API's own is checked, with key_file; empty: the system's. A Keystone user's are those of its cloud, or OS_CACERT."),
		words("state_directory", "/var/lib/salvor/agent", func(a *Agent) *string { return &a.StateDirectory },
			"The agent's own directory, not on a filesystem that it watches: what it knows survives there, and which filesystem belongs to "+
				"each resource."),
		define(g, "resource", repeated(), "", func(c *Config) *[]string { return &c.Agent.Resources },
			"A directory to watch, as NAME:PATH:KIND,KIND with the kinds of objects that need it: instance, blob, upload. Repeated, once for "+
				"each, such as instances:/var/lib/nova/instances:instance. Without kinds, a failure has an unknown radius and nothing is touched."),
		span("probe_interval", 0.1, 3600, "60", func(a *Agent) *time.Duration { return &a.ProbeInterval },
			"How often each resource is looked at."),
		span("write_interval", 0.1, 86400, "300", func(a *Agent) *time.Duration { return &a.WriteInterval },
			"How often a look also writes and waits for the disk. After a failure each does."),
		span("probe_timeout", 0.1, 600, "30", func(a *Agent) *time.Duration { return &a.ProbeTimeout },
			"How long a look may take; a longer one is a failure: timeout."),
		span("report_interval", 0.1, 600, "60", func(a *Agent) *time.Duration { return &a.ReportInterval },
			"How often the API is told, without a change. A change is told at once."),
		words("blob_directory", "", func(a *Agent) *string { return &a.BlobDirectory },
			"Where this host's copies of blobs are: a resource's path, or below it. Empty: it holds none."),
		define(g, "listen", listen(), "", func(c *Config) *string { return &c.Agent.Listen },
			"Where the agent serves its blobs to other agents, and /healthcheck, such as 192.0.2.1:15869; empty: nowhere."),
		define(g, "url", webURL(), "", func(c *Config) *string { return &c.Agent.URL },
			"By what URL other agents reach it; empty: made of listen, with the host's name where that has no address.", shown("of listen")),
		words("failure_domain", "", func(a *Agent) *string { return &a.FailureDomain },
			"The rack, room or power feed that this host fails with, by any name: copies of a blob go to different ones first. Empty: the host by itself."),
		words("ssl_cert_file", "", func(a *Agent) *string { return &a.CertFile },
			"The certificate with which the agent serves, and which it shows to other agents; empty: it serves plain HTTP."),
		words("ssl_key_file", "", func(a *Agent) *string { return &a.SSLKeyFile }, "Its key."),
		words("ssl_ca_file", "", func(a *Agent) *string { return &a.SSLCAFile },
			"Certificates of the authority of the agents: other agents must show one of it, and are checked by it. Empty: the system's are trusted, and "+
				"none is asked for."),
		span("verify_interval", 1, unbounded, "604800", func(a *Agent) *time.Duration { return &a.VerifyInterval },
			"How often each copy is hashed in the background."),
		number("verify_rate", 0, 100000, "20", func(a *Agent) *int { return &a.VerifyRate },
			"At most how many MiB a second are read for that. 0: no limit."),
		number("copies_in", 1, 64, "4", func(a *Agent) *int { return &a.CopiesIn }, "How many copies may arrive at a time."),
		number("copies_out", 1, 256, "16", func(a *Agent) *int { return &a.CopiesOut }, "How many may be read by others at a time."),
	}
}
