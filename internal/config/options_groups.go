package config

import "time"

func databaseOptions() []Option {
	const g = "database"
	return []Option{
		define(g, "connection", secret(), "sqlite:///$state_path/masakari.sqlite",
			func(c *Config) *Secret { return &c.Database.Connection },
			"The database, as a SQLAlchemy URL: mysql+pymysql://USER:PASSWORD@HOST/masakari?charset=utf8, "+
				"postgresql://USER:PASSWORD@HOST/masakari, or the embedded one, sqlite:////PATH/FILE, for a single process. "+
				"Several hosts of one Galera cluster may be named with commas; a process talks to one at a time.",
			alias("DEFAULT/sql_connection", "database/sql_connection", "sql/connection")),
		ignored(g, "mysql_sql_mode", "TRADITIONAL", "sessions always have the strict mode that salvor's statements are made for"),
		define(g, "max_pool_size", integer(0, unbounded), "5",
			func(c *Config) *int { return &c.Database.MaxPoolSize },
			"How many connections may be open for the usual load; one that has rested for a minute is closed. 0: no limit."),
		define(g, "max_overflow", integer(0, unbounded), "50",
			func(c *Config) *int { return &c.Database.MaxOverflow },
			"How many more may be open under load.", alias("DEFAULT/sql_max_overflow", "sqlalchemy_max_overflow")),
		ignored(g, "pool_timeout", "", "who waits for a free connection waits as long as the whole request may take", alias("sqlalchemy_pool_timeout")),
		define(g, "connection_recycle_time", seconds(0), "3600",
			func(c *Config) *time.Duration { return &c.Database.RecycleTime },
			"The age at which a connection is replaced; keep it under the server's wait_timeout. 0: never.",
			alias("idle_timeout", "DEFAULT/sql_idle_timeout")),
		define(g, "max_retries", integer(-1, unbounded), "10",
			func(c *Config) *int { return &c.Database.MaxRetries },
			"How often the first connection is tried again at start; -1: without end.", alias("DEFAULT/sql_max_retries", "sql_max_retries")),
		define(g, "retry_interval", seconds(0), "10",
			func(c *Config) *time.Duration { return &c.Database.RetryInterval },
			"The pause between those tries.", alias("DEFAULT/sql_retry_interval", "reconnect_interval")),
	}
}

func failureOptions() []Option {
	return []Option{
		define("host_failure", "evacuate_all_instances", boolean(), "true",
			func(c *Config) *bool { return &c.HostFailure.EvacuateAll },
			"Move all instances of a failed host, those with the metadata key below first. false: only those.", mutable),
		define("host_failure", "ha_enabled_instance_metadata_key", text(), "HA_Enabled",
			func(c *Config) *string { return &c.HostFailure.MetadataKey },
			"The metadata key of an instance that says whether it is moved: True moves it before the others, False, "+
				"spelled out, never moves it.", mutable),
		define("host_failure", "ignore_instances_in_error_state", boolean(), "false",
			func(c *Config) *bool { return &c.HostFailure.IgnoreErrored },
			"Leave instances in error state where they are.", mutable),
		define("host_failure", "add_reserved_host_to_aggregate", boolean(), "false",
			func(c *Config) *bool { return &c.HostFailure.AddToAggregate },
			"Add the reserved host that takes over to the failed host's aggregates.", mutable),
		define("host_failure", "service_disable_reason", text(), "Masakari detected host failed.",
			func(c *Config) *string { return &c.HostFailure.DisableReason },
			"The reason with which the compute service of a failed host is disabled.", mutable),
		define("instance_failure", "process_all_instances", boolean(), "false",
			func(c *Config) *bool { return &c.InstanceFailure.ProcessAll },
			"Restart any instance that failed. false: only those with the metadata key below.", mutable),
		define("instance_failure", "ha_enabled_instance_metadata_key", text(), "HA_Enabled",
			func(c *Config) *string { return &c.InstanceFailure.MetadataKey },
			"The metadata key of an instance that says whether it is restarted.", mutable),
		define("process_failure", "service_disable_reason", text(), "Masakari detected process failed.",
			func(c *Config) *string { return &c.ProcessFailure.DisableReason },
			"The reason with which a compute service is disabled when its process failed.", mutable),
	}
}

func flowOptions() []Option {
	const (
		g    = "taskflow_driver_recovery_flows"
		help = " Checked, without effect: salvor's recoveries have steps of their own. Tasks that are not Masakari's cannot run in salvor and are refused."
	)
	return []Option{
		define(g, "host_auto_failure_recovery_tasks", flow(),
			"pre:['disable_compute_service_task'],main:['prepare_HA_enabled_instances_task'],post:['evacuate_instances_task']",
			func(c *Config) *Flow { return &c.Flows.HostAuto },
			"The tasks of a host recovery where Nova chooses the destination."+help),
		define(g, "host_rh_failure_recovery_tasks", flow(),
			"pre:['disable_compute_service_task'],main:['prepare_HA_enabled_instances_task','evacuate_instances_task'],post:[]",
			func(c *Config) *Flow { return &c.Flows.HostReserved },
			"The tasks of a host recovery onto a reserved host."+help),
		define(g, "instance_failure_recovery_tasks", flow(),
			"pre:['stop_instance_task'],main:['start_instance_task'],post:['confirm_instance_active_task']",
			func(c *Config) *Flow { return &c.Flows.Instance }, "The tasks of an instance's recovery."+help),
		define(g, "process_failure_recovery_tasks", flow(),
			"pre:['disable_compute_node_task'],main:['confirm_compute_node_disabled_task'],post:[]",
			func(c *Config) *Flow { return &c.Flows.Process }, "The tasks of a process's recovery."+help),
	}
}

func messagingOptions() []Option {
	const n, r = "oslo_messaging_notifications", "oslo_messaging_rabbit"
	return []Option{
		define(groupDefault, "transport_url", secret(), "rabbit://",
			func(c *Config) *Secret { return &c.transport },
			"The message bus, as rabbit://USER:PASSWORD@HOST:PORT,…/VHOST. It is used for versioned notifications only, "+
				"and only if [oslo_messaging_notifications] driver names one."),
		define(groupDefault, "control_exchange", text(), "masakari",
			func(c *Config) *string { return &c.Notifications.Exchange }, "The exchange that they are published to."),
		define(n, "driver", repeated(), "",
			func(c *Config) *[]string { return &c.Notifications.Drivers },
			"How versioned notifications are sent: messagingv2, messaging, log, noop; repeated, by each. Without one there are none. "+
				"routing is not supported, test does nothing."),
		define(n, "transport_url", secret(), "",
			func(c *Config) *Secret { return &c.Notifications.TransportURL },
			"The message bus for them; empty: [DEFAULT] transport_url.", alias("DEFAULT/notification_transport_url")),
		define(n, "retry", integer(-1, unbounded), "-1",
			func(c *Config) *int { return &c.Notifications.Retry },
			"How often a notification that was not taken is sent again; -1: until it is taken."),
		define(r, "ssl", boolean(), "false",
			func(c *Config) *bool { return &c.Rabbit.SSL }, "Connect to RabbitMQ over TLS.", alias("rabbit_use_ssl")),
		define(r, "ssl_ca_file", text(), "",
			func(c *Config) *string { return &c.Rabbit.CAFile }, "The CA certificates for it.", alias("kombu_ssl_ca_certs")),
		define(r, "ssl_cert_file", text(), "",
			func(c *Config) *string { return &c.Rabbit.CertFile }, "A client certificate.", alias("kombu_ssl_certfile")),
		define(r, "ssl_key_file", text(), "",
			func(c *Config) *string { return &c.Rabbit.KeyFile }, "Its private key.", alias("kombu_ssl_keyfile")),
		define(r, "ssl_enforce_hostname_verification", boolean(), "false",
			func(c *Config) *bool { return &c.Rabbit.VerifyHostname }, "Check the host name in RabbitMQ's certificate too."),
		define(r, "amqp_durable_queues", boolean(), "false",
			func(c *Config) *bool { return &c.Rabbit.Durable },
			"Declare queues as durable; must be as the consumers of the notifications have it.",
			alias("DEFAULT/amqp_durable_queues", "rabbit_durable_queues")),
		define(r, "amqp_auto_delete", boolean(), "false",
			func(c *Config) *bool { return &c.Rabbit.AutoDelete },
			"Declare queues as deleted with their last consumer.", alias("DEFAULT/amqp_auto_delete")),
		define(r, "rabbit_ha_queues", boolean(), "false",
			func(c *Config) *bool { return &c.Rabbit.HAQueues },
			"Declare queues as mirrored.", alias("DEFAULT/rabbit_ha_queues")),
		define(r, "rabbit_quorum_queue", boolean(), "false",
			func(c *Config) *bool { return &c.Rabbit.Quorum }, "Declare quorum queues."),
		define(r, "rabbit_retry_interval", seconds(1), "1",
			func(c *Config) *time.Duration { return &c.Rabbit.RetryInterval },
			"The pause before a lost connection is opened again."),
		define(r, "rabbit_retry_backoff", seconds(0), "2",
			func(c *Config) *time.Duration { return &c.Rabbit.RetryBackoff },
			"By how much that pause grows.", alias("DEFAULT/rabbit_retry_backoff")),
		define(r, "rabbit_interval_max", seconds(1), "30",
			func(c *Config) *time.Duration { return &c.Rabbit.RetryMax }, "The longest such pause."),
		define(r, "heartbeat_timeout_threshold", seconds(0), "60",
			func(c *Config) *time.Duration { return &c.Rabbit.Heartbeat },
			"Without a sign of RabbitMQ for so long the connection counts as lost; 0: no heartbeats."),
	}
}

func httpOptions() []Option {
	return append(middlewareOptions(),
		ignored("wsgi", "api_paste_config", "api-paste.ini",
			"the file is not read: requests are authenticated as auth_strategy says, and no filter can be put in or taken out", alias("DEFAULT/api_paste_config")),
		define("wsgi", "ssl_cert_file", text(), "",
			func(c *Config) *string { return &c.WSGI.CertFile }, "The API's certificate, with [DEFAULT] use_ssl.", alias("DEFAULT/ssl_cert_file")),
		define("wsgi", "ssl_key_file", text(), "",
			func(c *Config) *string { return &c.WSGI.KeyFile }, "Its private key.", alias("DEFAULT/ssl_key_file")),
		define("wsgi", "ssl_ca_file", text(), "",
			func(c *Config) *string { return &c.WSGI.CAFile },
			"The CA certificates with which clients' are checked; with it, clients must have one.", alias("DEFAULT/ssl_ca_file")),
		ignored("wsgi", "secure_proxy_ssl_header", "", "set [oslo_middleware] enable_proxy_headers_parsing, with which links say https behind such a proxy",
			alias("DEFAULT/secure_proxy_ssl_header")),
		define("wsgi", "max_header_line", integer(1024, 1<<20), "16384",
			func(c *Config) *int { return &c.Middleware.MaxHeaderLine },
			"The largest size of a request's line and headers, in bytes.", alias("DEFAULT/max_header_line")),
		define("wsgi", "keep_alive", boolean(), "true",
			func(c *Config) *bool { return &c.WSGI.KeepAlive },
			"Keep clients' connections open between requests.", alias("DEFAULT/wsgi_keep_alive")),
		define("wsgi", "client_socket_timeout", seconds(0), "900",
			func(c *Config) *time.Duration { return &c.WSGI.SocketTimeout },
			"When an idle connection of a client is closed; 0: never.", alias("DEFAULT/client_socket_timeout")),
		ignored("wsgi", "tcp_keepidle", "600", "TCP probes an idle connection every 15 s", alias("DEFAULT/tcp_keepidle")),
	)
}

func middlewareOptions() []Option {
	return []Option{
		ignored(groupDefault, "use_forwarded_for", "false", "with [oslo_middleware] enable_proxy_headers_parsing log lines have the caller's address"),
		define("osapi_v1", "project_id_regex", expression(), "",
			func(c *Config) *string { return &c.API.ProjectIDPattern },
			"What a project id in a URL looks like; empty: 32 hexadecimal digits or a dashed UUID.", mutable),
		define("oslo_middleware", "max_request_body_size", integer(1, unbounded), "114688",
			func(c *Config) *int { return &c.Middleware.MaxBodySize },
			"The largest body of a request, in bytes; a larger one is refused with 413.",
			alias("DEFAULT/osapi_max_request_body_size", "DEFAULT/max_request_body_size"), mutable),
		define("oslo_middleware", "enable_proxy_headers_parsing", boolean(), "false",
			func(c *Config) *bool { return &c.Middleware.ProxyHeaders },
			"Take scheme, host and prefix of links from the X-Forwarded headers of a proxy.", mutable),
		define("oslo_policy", "policy_file", text(), DefaultPolicyFile,
			func(c *Config) *string { return &c.Policy.File },
			"Rules that differ from the defaults; searched beside the configuration files, read anew when changed.",
			alias("DEFAULT/policy_file"), mutable),
		define("oslo_policy", "policy_dirs", repeated(), "policy.d",
			func(c *Config) *[]string { return &c.Policy.Dirs },
			"Directories with more such files.", alias("DEFAULT/policy_dirs"), mutable),
		define("oslo_policy", "policy_default_rule", text(), "default",
			func(c *Config) *string { return &c.Policy.DefaultRule },
			"The rule that stands in for one that does not exist.", alias("DEFAULT/policy_default_rule"), mutable),
		ignored("oslo_policy", "enforce_scope", "false", "no rule names a scope"),
		ignored("oslo_policy", "enforce_new_defaults", "false", "no rule has an older default"),
		define("cors", "allowed_origin", list(), "",
			func(c *Config) *[]string { return &c.CORS.AllowedOrigins },
			"The origins from which browsers may call the API; * for any. Empty: no CORS headers at all.", mutable),
		define("cors", "allow_credentials", boolean(), "true",
			func(c *Config) *bool { return &c.CORS.AllowCredentials }, "Let them send credentials.", mutable),
		define("cors", "expose_headers", list(), "X-Auth-Token,X-Openstack-Request-Id,X-Subject-Token,X-Service-Token",
			func(c *Config) *[]string { return &c.CORS.ExposeHeaders }, "The answer headers that they may read.", mutable),
		define("cors", "max_age", seconds(0), "3600",
			func(c *Config) *time.Duration { return &c.CORS.MaxAge }, "For how long they may keep a preflight answer.", mutable),
		define("cors", "allow_methods", list(), "GET,PUT,POST,DELETE,PATCH",
			func(c *Config) *[]string { return &c.CORS.AllowMethods }, "The methods that they may use.", mutable),
		define("cors", "allow_headers", list(),
			"X-Auth-Token,X-Openstack-Request-Id,X-Identity-Status,X-Roles,X-Service-Catalog,X-User-Id,X-Tenant-Id",
			func(c *Config) *[]string { return &c.CORS.AllowHeaders }, "The request headers that they may send.", mutable),
	}
}
