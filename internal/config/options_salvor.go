package config

import "time"

// salvorOptions are RECOVERY section 8.
func salvorOptions() []Option {
	const g = "salvor"
	span := func(name string, low, high float64, def string, field func(*Salvor) *time.Duration, help string, with ...func(*Option)) Option {
		return define(g, name, fraction(low, high), def, func(c *Config) *time.Duration { return field(&c.Salvor) }, help, with...)
	}
	number := func(name string, low, high int, def string, field func(*Salvor) *int, help string, with ...func(*Option)) Option {
		return define(g, name, integer(low, high), def, func(c *Config) *int { return field(&c.Salvor) }, help, with...)
	}
	flag := func(name, def string, field func(*Salvor) *bool, help string, with ...func(*Option)) Option {
		return define(g, name, boolean(), def, func(c *Config) *bool { return field(&c.Salvor) }, help, with...)
	}
	return []Option{
		flag("force_down", "true", func(s *Salvor) *bool { return &s.ForceDown },
			"Force a failed host's compute service down in Nova, so that Nova takes evacuations at once. false: wait, at most "+
				"wait_period_after_service_update, until Nova notices the death itself."),
		flag("trust_reports", "false", func(s *Salvor) *bool { return &s.TrustReports },
			"Take a monitor's report of a dead host (host_status NORMAL) as proof, even while Nova still counts the host as "+
				"up. false: wait until its heartbeats have stopped. Segments may set it for themselves. Set it only for "+
				"monitors that fence before they report.", mutable),
		span("nova_report_interval", 1, 3600, "10", func(s *Salvor) *time.Duration { return &s.NovaReportInterval },
			"Nova's own report_interval: without a heartbeat for 1.5 times as long, a reported host counts as silent.", mutable),
		span("proof_max_age", 1, 3600, "60", func(s *Salvor) *time.Duration { return &s.ProofMaxAge },
			"After a hold, a wait or a takeover, a proof of death older than this is taken again before the next order.", mutable),
		span("order_in_doubt", 1, 3600, "60", func(s *Salvor) *time.Duration { return &s.OrderInDoubt },
			"For how long an instance whose evacuate order got no answer waits for Nova's record of it before it is ordered "+
				"again. At least the timeout of every proxy in front of Nova."),
		number("brake_percent", 0, 100, "50", func(s *Salvor) *int { return &s.BrakePercent },
			"Recoveries of a segment are held while at least two of its hosts, and more than this percentage of them, are "+
				"down: that is rather a network failure than dead hosts. 0: no brake. 100: never held either, as no more than "+
				"all can be down.", mutable),
		number("host_recovery_rate", 0, 100000, "10", func(s *Salvor) *int { return &s.HostRecoveryRate },
			"How many host recoveries may start in one segment in one minute; the next ones wait. 0: no limit.", mutable),
		number("max_recovery_attempts", 1, 100, "3", func(s *Salvor) *int { return &s.MaxRecoveryAttempts },
			"How often a recovery that ends in error is tried in all, before it is failed.", mutable),
		number("nova_concurrency_max", 1, 1000, "32", func(s *Salvor) *int { return &s.NovaConcurrencyMax },
			"The most calls to Nova in flight at a time. Below it the number adapts to how Nova fares."),
		span("nova_timeout", 1, 600, "30", func(s *Salvor) *time.Duration { return &s.NovaTimeout },
			"How long one call to Nova, Placement or Keystone may take."),
		flag("auto_return", "false", func(s *Salvor) *bool { return &s.AutoReturn },
			"Enable a recovered host again, and end its maintenance, when it is back. false: an operator does.", mutable),
		span("healthy_delay", 1, 86400, "300", func(s *Salvor) *time.Duration { return &s.HealthyDelay },
			"For how long a failed host must send heartbeats before it counts as back without a monitor's word, and must have been up "+
				"before auto_return gives it back.", mutable),
		number("auto_return_limit", 0, 100, "3", func(s *Salvor) *int { return &s.AutoReturnLimit },
			"A host that has failed more often than this within auto_return_window is not given back by auto_return any more: it stays "+
				"disabled and on maintenance until an operator ends that, and an alarm says so. 0: no limit.", mutable),
		span("auto_return_window", 60, unbounded, "86400", func(s *Salvor) *time.Duration { return &s.AutoReturnWindow },
			"The time within which auto_return_limit counts a host's failures.", mutable),
		define(g, "instance_class", instanceClasses(), "", func(c *Config) *[]InstanceClass { return &c.Salvor.InstanceClasses },
			"A rule for a class of instances, as NAME: CONDITION, …, action=evacuate|leave|error; repeated, the first that fits decides. "+
				"Conditions: metadata.KEY, flavor, flavor.SPEC, image, image.PROPERTY, project, aggregate, each =VALUE or =VALUE|VALUE, "+
				"with * for any text. Further: priority=N, wait=SECONDS, cap=SECONDS, restart=true|false (docs/guide.md, Classes of "+
				"instances). None: as Masakari.", mutable),
		number("instance_restart_limit", 0, 100, "5", func(s *Salvor) *int { return &s.InstanceRestartLimit },
			"An instance that was restarted so often within instance_restart_window, after reports of a monitor, is left as it is when it "+
				"is reported again: the report is ignored, and an alarm says so. 0: no limit.", mutable),
		span("instance_restart_window", 1, unbounded, "3600", func(s *Salvor) *time.Duration { return &s.RestartWindow },
			"The time within which instance_restart_limit counts restarts.", mutable),
		define(g, "local_disk", choice("evacuate", "leave"), "evacuate",
			func(c *Config) *string { return &c.Salvor.LocalDisk },
			"What happens to instances whose disk is on the dead host itself: evacuate rebuilds them from their image, and "+
				"their data is lost; leave does not touch them.", mutable),
		define(g, "storage_failure_action", choice("error", "evacuate"), "error",
			func(c *Config) *string { return &c.Salvor.StorageFailureAction },
			"What happens to the instances of a host whose storage failed: error sets them to error and keeps them; "+
				"evacuate fences the host and moves them. Segments may set it for themselves (salvor segment create or update, --storage-failure-action).", mutable),
		number("blob_transfers", 1, 10000, "1024", func(s *Salvor) *int { return &s.BlobTransfers },
			"How many copies of blobs may be ordered at a time. An agent takes several at once, and gets more than it works on, so that "+
				"it need not wait for orders."),
		number("blob_transfers_per_source", 1, 1000, "100", func(s *Salvor) *int { return &s.BlobTransfersPerSource },
			"How many of them from one host."),
		number("blob_transfers_per_target", 1, 100, "100", func(s *Salvor) *int { return &s.BlobTransfersPerTarget },
			"How many of them to one host."),
		number("blob_reserved_mb", 0, unbounded, "1024", func(s *Salvor) *int { return &s.BlobReservedMB },
			"How much of each host's blob directory stays free, in MiB: no copy is ordered into it."),
		span("blob_silence_grace", 60, unbounded, "3600", func(s *Salvor) *time.Duration { return &s.BlobSilenceGrace },
			"For how long the copies on a host whose agent is silent go on counting. After that others are made."),
		span("blob_verify_interval", 3600, unbounded, "2592000", func(s *Salvor) *time.Duration { return &s.BlobVerifyInterval },
			"A copy whose agent has not hashed it for so long is ordered to be hashed."),
		span("lease_ttl", 1, 600, "5", func(s *Salvor) *time.Duration { return &s.LeaseTTL },
			"An engine that has not been heard of for so long loses its work to another. A database that takes a third of it for a commit "+
				"is too slow for it: raise it, on all engines."),
		span("lease_tick", 0.1, 60, "1", func(s *Salvor) *time.Duration { return &s.LeaseTick },
			"How often an engine says that it lives; at most a third of lease_ttl."),
		span("drain_timeout", 0, 600, "5", func(s *Salvor) *time.Duration { return &s.DrainTimeout },
			"How long a stop waits for calls to Nova that are in flight."),
		span("poll_interval", 0.05, 60, "0.5", func(s *Salvor) *time.Duration { return &s.PollInterval },
			"How often an engine looks for new work in the database."),
		define(g, "fencing_file", text(), "", func(c *Config) *string { return &c.Salvor.FencingFile },
			"The file that says how each host is powered off (docs/fencing.md); empty: hosts are not fenced. It must not be open "+
				"to everybody. Engines fence by it; an api tells by it, as coverage and plan, what they can fence. It is read at the start only."),
		span("fencing_rehearsal_interval", 0, 604800, "3600", func(s *Salvor) *time.Duration { return &s.FencingRehearsalInterval },
			"How often an engine tries the fencing of every registered host as far as that harms nobody: login, a look at the "+
				"power state. 0: never."),
		span("doctor_interval", 0, 604800, "3600", func(s *Salvor) *time.Duration { return &s.DoctorInterval },
			"How often an engine tries, as `salvor doctor` does, every call that a recovery will make; what it finds is in the log and in "+
				"the metrics. The first time is some seconds after its start. 0: never."),
		define(g, "webhook_url", webURLs(), "", func(c *Config) *[]string { return &c.Salvor.WebhookURLs },
			"Where versioned notifications are posted to, as JSON; repeated, to each. The same in every process of salvor.", hidden),
		define(g, "webhook_secret", secret(), "", func(c *Config) *Secret { return &c.Salvor.WebhookSecret },
			"The key with which those posts are signed; empty: they are not."),
		span("webhook_timeout", 0.1, 300, "10", func(s *Salvor) *time.Duration { return &s.WebhookTimeout },
			"How long an endpoint may take to answer a post."),
		span("webhook_give_up", 60, unbounded, "86400", func(s *Salvor) *time.Duration { return &s.WebhookGiveUp },
			"A message that an endpoint has not taken for so long is dropped, and the log says so."),
		number("outbox_max_rows", 100, unbounded, "100000", func(s *Salvor) *int { return &s.OutboxMaxRows },
			"How many versioned notifications may wait for one destination (RabbitMQ, or a webhook) that is away; beyond it the "+
				"oldest are dropped, and the log says so."),
		define(g, "trace_url", webURL(), "", func(c *Config) *string { return &c.Salvor.TraceURL },
			"Where spans of each recovery are sent to, by OpenTelemetry's protocol over HTTP, such as "+
				"http://127.0.0.1:4318/v1/traces; empty: nowhere.", hidden),
		define(g, "metrics_listen", listen(), "", func(c *Config) *string { return &c.Salvor.MetricsListen },
			"Where metrics are served in Prometheus' format, at /metrics, such as 127.0.0.1:9105; empty: nowhere. Each process of a machine needs "+
				"an address of its own: where api and engine share this file, set OS_SALVOR__METRICS_LISTEN in their units."),
	}
}
