package config

import "time"

func apiOptions() []Option {
	return []Option{
		define(groupDefault, "auth_strategy", choice("keystone", "noauth2"), "keystone",
			func(c *Config) *string { return &c.API.AuthStrategy },
			"How callers are authenticated. noauth2 checks nothing and makes every caller an administrator."),
		define(groupDefault, "masakari_api_listen", address(), "0.0.0.0",
			func(c *Config) *string { return &c.API.Listen }, "The address on which the API listens."),
		define(groupDefault, "masakari_api_listen_port", integer(1, 65535), "15868",
			func(c *Config) *int { return &c.API.Port }, "The port on which the API listens."),
		define(groupDefault, "use_ssl", boolean(), "false",
			func(c *Config) *bool { return &c.API.UseSSL },
			"Serve the API over TLS, with the files named in [wsgi] ssl_cert_file, ssl_key_file and ssl_ca_file."),
		define(groupDefault, "osapi_max_limit", integer(1, unbounded), "1000",
			func(c *Config) *int { return &c.API.MaxLimit },
			"The largest page of a list. A larger limit in a request is cut down to it.", mutable),
		define(groupDefault, "osapi_masakari_link_prefix", text(), "",
			func(c *Config) *string { return &c.API.LinkPrefix },
			"The base of the links in answers, for an API behind a proxy, such as https://cloud.example.com/instance-ha.", mutable),
		define(groupDefault, "duplicate_notification_detection_interval", seconds(0), "180",
			func(c *Config) *time.Duration { return &c.API.DuplicateInterval },
			"A report that equals one of the same host and is younger than it by less than this is a duplicate, and "+
				"refused with 409. 0: only reports of the same or an earlier time are.", mutable),
	}
}

func engineOptions() []Option {
	return []Option{
		define(groupDefault, "host", address(), "",
			func(c *Config) *string { return &c.Engine.Host },
			"The name of this machine in notifications and in lists of engines.", shown("the machine's host name")),
		define(groupDefault, "state_path", text(), "$pybasedir",
			func(c *Config) *string { return &c.Engine.StatePath },
			"The directory of the embedded database, for an installation without MariaDB or PostgreSQL.",
			shown("/var/lib/salvor; for other users than root ~/.local/state/salvor")),
		define(groupDefault, "wait_period_after_service_update", seconds(0), "180",
			func(c *Config) *time.Duration { return &c.Engine.WaitAfterServiceUpdate },
			"For how long salvor waits for Nova to show a compute service disabled, or down where [salvor] force_down is "+
				"false. It is a limit, not a pause: salvor goes on as soon as Nova shows it.", mutable),
		define(groupDefault, "wait_period_after_evacuation", seconds(1), "90",
			func(c *Config) *time.Duration { return &c.Engine.WaitAfterEvacuation },
			"How long one instance's evacuation may take before it counts as hanging.", mutable),
		define(groupDefault, "verify_interval", seconds(1), "1",
			func(c *Config) *time.Duration { return &c.Engine.VerifyInterval },
			"The pause between two looks at Nova while something is under way.", mutable),
		define(groupDefault, "wait_period_after_power_off", seconds(0), "180",
			func(c *Config) *time.Duration { return &c.Engine.WaitAfterPowerOff },
			"How long an instance may take to stop.", mutable),
		define(groupDefault, "wait_period_after_power_on", seconds(0), "60",
			func(c *Config) *time.Duration { return &c.Engine.WaitAfterPowerOn },
			"How long an instance may take to become active after its start.", mutable),
		define(groupDefault, "process_unfinished_notifications_interval", seconds(1), "120",
			func(c *Config) *time.Duration { return &c.Engine.RetryInterval },
			"The pause before a recovery that ended in error is tried again; it grows with each try.", mutable),
		define(groupDefault, "notifications_expired_interval", seconds(1), "86400",
			func(c *Config) *time.Duration { return &c.Engine.ExpiredAfter },
			"The age, counted from its receipt, at which an unfinished notification is cancelled and set to failed.", mutable),
		define(groupDefault, "host_failure_recovery_threads", integer(1, unbounded), "",
			func(c *Config) *int { return &c.Engine.EvacuationsPerHost },
			"How many instances of one failed host may be evacuating at a time. Masakari's default is 3; salvor has no "+
				"such limit unless this is set: it limits calls to Nova instead, see [salvor] nova_concurrency_max.",
			shown("no limit"), mutable),
		define(groupDefault, "periodic_enable", boolean(), "true",
			func(c *Config) *bool { return &c.Engine.Periodic },
			"Retry recoveries that ended in error, and expire old notifications.", mutable),
		define(groupDefault, "notification_driver", choice("taskflow_driver"), "taskflow_driver",
			func(c *Config) *string { return new(string) },
			"The workflow driver. salvor has one; another name is refused."),
	}
}

func novaOptions() []Option {
	return []Option{
		define(groupDefault, "os_privileged_user_auth_url", webURL(), "",
			func(c *Config) *string { return &c.Nova.AuthURL },
			"Keystone's URL for the account with which salvor works on Nova."),
		define(groupDefault, "os_privileged_user_name", text(), "",
			func(c *Config) *string { return &c.Nova.User }, "The name of that account; it needs the role admin."),
		define(groupDefault, "os_privileged_user_password", secret(), "",
			func(c *Config) *Secret { return &c.Nova.Password }, "Its password."),
		define(groupDefault, "os_privileged_user_tenant", text(), "",
			func(c *Config) *string { return &c.Nova.Project }, "Its project."),
		define(groupDefault, "os_user_domain_name", text(), "default",
			func(c *Config) *string { return &c.Nova.UserDomain }, "The name of the domain of that account."),
		define(groupDefault, "os_project_domain_name", text(), "default",
			func(c *Config) *string { return &c.Nova.ProjectDomain }, "The name of the domain of its project."),
		define(groupDefault, "os_system_scope", text(), "",
			func(c *Config) *string { return &c.Nova.SystemScope },
			"all: ask for a token of system scope instead of one of the project."),
		define(groupDefault, "os_region_name", text(), "",
			func(c *Config) *string { return &c.Nova.Region }, "The region of Nova; empty: the first in the catalog."),
		define(groupDefault, "nova_catalog_admin_info", catalogInfo(), "compute:nova:publicURL",
			func(c *Config) *string { return &c.Nova.CatalogInfo },
			"Where Nova stands in the service catalog: service type, service name and interface (public, internal or "+
				"admin, with or without URL behind it)."),
		define(groupDefault, "nova_ca_certificates_file", text(), "",
			func(c *Config) *string { return &c.Nova.CertificateFile },
			"The CA certificates with which Nova's, Placement's and Keystone's TLS certificates are checked; empty: the "+
				"system's."),
		define(groupDefault, "nova_api_insecure", boolean(), "false",
			func(c *Config) *bool { return &c.Nova.Insecure }, "Do not check those certificates at all."),
	}
}

func logOptions() []Option {
	return []Option{
		define(groupDefault, "debug", boolean(), "false",
			func(c *Config) *bool { return &c.Log.Debug }, "Log at level DEBUG instead of INFO.", mutable),
		define(groupDefault, "use_json", boolean(), "false",
			func(c *Config) *bool { return &c.Log.JSON }, "Write log lines as JSON objects.", alias("use-json")),
		define(groupDefault, "log_file", text(), "",
			func(c *Config) *string { return &c.Log.File },
			"The log file, relative to log_dir. It is opened anew when it was moved away, so that logrotate needs no signal. "+
				"Empty: log to standard error.", alias("log-file", "logfile")),
		define(groupDefault, "log_dir", text(), "",
			func(c *Config) *string { return &c.Log.Dir },
			"The directory of log files. With log_dir alone the file is named after the role, such as salvor-engine.log.",
			alias("log-dir", "logdir")),
		define(groupDefault, "use_stderr", boolean(), "false",
			func(c *Config) *bool { return &c.Log.UseStderr }, "Log to standard error as well as to the file."),
		define(groupDefault, "use_syslog", boolean(), "false",
			func(c *Config) *bool { return &c.Log.UseSyslog }, "Log to the local syslog daemon.", alias("use-syslog")),
		define(groupDefault, "syslog_log_facility", text(), "LOG_USER",
			func(c *Config) *string { return &c.Log.Facility }, "The facility of those messages.", alias("syslog-log-facility")),
		define(groupDefault, "use_journal", boolean(), "false",
			func(c *Config) *bool { return &c.Log.Journal },
			"Log for systemd's journal: to standard error, without times and with the journal's priority marks.",
			alias("use-journal")),
	}
}
