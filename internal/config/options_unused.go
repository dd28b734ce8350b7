package config

// otherDefaultOptions are what Masakari or its libraries read from [DEFAULT] and salvor has no use for.
func otherDefaultOptions() []Option {
	return append([]Option{
		ignored(groupDefault, "notification_delay_max", "5",
			"reports are admitted in one transaction, nothing needs to be thinned out"),
		ignored(groupDefault, "retry_notification_new_status_interval", "60",
			"a new notification is taken up at once, by whichever engine lives"),
		ignored(groupDefault, "check_expired_notifications_interval", "600",
			"expiry is looked at in each step of a recovery"),
		ignored(groupDefault, "periodic_fuzzy_delay", "60", "engines share their work by hash"),
		ignored(groupDefault, "masakari_topic", "ha_engine", "there is no RPC between the API and the engines"),
		ignored(groupDefault, "pybasedir", "", "", shown("as state_path")),
		ignored(groupDefault, "log_config_append", "", "Python's logging configuration",
			alias("log-config-append", "log-config", "log_config")),
		ignored(groupDefault, "watch_log_file", "false", "a moved log file is always noticed", alias("watch-log-file")),
		ignored(groupDefault, "log_date_format", "", "", alias("log-date-format")),
	}, unusedOptions(groupDefault,
		"masakari_api_workers", "engine_manager=masakari.engine.manager.MasakariManager",
		"report_interval=10", "service_down_time=60", "periodic_interval_max=300", "tempdir", "monkey_patch=false",
		"monkey_patch_modules=masakari.api:masakari.cmd", "fatal_exception_format_errors=false", "bindir",
		"cafile", "certfile", "keyfile", "insecure=false", "timeout", "collect_timing=false", "split_loggers=false",
		"rpc_response_timeout=60", "rpc_conn_pool_size=30", "conn_pool_min_size=2",
		"conn_pool_ttl=1200", "executor_thread_pool_size=64", "rpc_thread_pool_size=64", "rpc_ping_enabled=false",
		"rpc_backend",
		"use_eventlog=false", "log_rotate_interval=1", "log_rotate_interval_type=days", "max_logfile_count=30",
		"max_logfile_size_mb=200", "log_rotation_type=none", "logging_context_format_string",
		"logging_default_format_string", "logging_debug_format_suffix", "logging_exception_prefix",
		"logging_user_identity_format", "default_log_levels", "publish_errors=false", "instance_format",
		"instance_uuid_format", "rate_limit_interval=0", "rate_limit_burst=0", "rate_limit_except_level=CRITICAL",
		"fatal_deprecations=false", "verbose",
		"backdoor_port", "backdoor_socket", "run_external_periodic_tasks=true", "log_options=true",
		"graceful_shutdown_timeout=60", "wsgi_server_debug=false", "wsgi_default_pool_size=100", "wsgi_log_format",
		"config_file", "config_dir", "config_source")...)
}

// unusedGroupOptions are those of whole groups, or of groups of which only a part acts.
func unusedGroupOptions() []Option {
	var all []Option
	add := func(group string, names ...string) { all = append(all, unusedOptions(group, names...)...) }
	all = append(all,
		ignored("taskflow", "connection", "", "recoveries are kept in salvor's own tables", hidden),
		ignored("coordination", "backend_url", "", "the database serialises admissions", hidden),
		ignored("oslo_messaging_notifications", "topics", "notifications", "the topic is versioned_notifications, as in Masakari",
			alias("rpc_notifier2/topics", "DEFAULT/notification_topics")),
		ignored("database", "slave_connection", "", "", hidden),
	)
	add("database", "sqlite_synchronous=true", "backend=sqlalchemy", "mysql_enable_ndb=false", "mysql_wsrep_sync_wait",
		"connection_debug=0", "connection_trace=false", "use_db_reconnect=false", "db_retry_interval=1",
		"db_inc_retry_interval=true", "db_max_retry_interval=10", "db_max_retries=20", "connection_parameters",
		"asyncio_connection", "asyncio_slave_connection", "synchronous_reader=true", "use_tpool=false",
		"sqlite_db", "min_pool_size")
	add("osapi_v1", "extensions_blacklist", "extensions_whitelist")
	add("oslo_concurrency", "disable_process_locking=false", "lock_path")
	add("healthcheck", "path=/healthcheck", "detailed=false", "backends", "disable_by_file_path",
		"disable_by_file_paths", "allowed_source_ranges", "ignore_proxied_requests=false", "enable_by_file_paths")
	add("ssl", "ca_file", "cert_file", "key_file", "version", "ciphers")
	add("oslo_middleware", "secure_proxy_ssl_header=X-Forwarded-Proto", "http_basic_auth_user_file=/etc/htpasswd")
	add("oslo_policy", "remote_content_type=application/x-www-form-urlencoded", "remote_ssl_verify_server_crt=false",
		"remote_ssl_ca_crt_file", "remote_ssl_client_crt_file", "remote_ssl_client_key_file", "remote_timeout=60")
	add("wsgi", "wsgi_log_format", "default_pool_size=1000")
	add("oslo_messaging_rabbit", "ssl_version", "ssl_enforce_fips_mode=false", "heartbeat_in_pthread=false",
		"kombu_reconnect_delay=1.0", "kombu_reconnect_splay=0.0", "kombu_compression",
		"kombu_missing_consumer_retry_timeout=60", "kombu_reconnect_timeout", "kombu_failover_strategy=round-robin",
		"rabbit_login_method=AMQPLAIN", "rabbit_transient_quorum_queue=false", "rabbit_quorum_delivery_limit=0",
		"rabbit_quroum_max_memory_length=0", "rabbit_quroum_max_memory_bytes=0", "rabbit_quorum_max_memory_length=0",
		"rabbit_quorum_max_memory_bytes=0", "rabbit_transient_queues_ttl=1800", "rabbit_qos_prefetch_count=0",
		"heartbeat_rate=2", "direct_mandatory_flag=true", "enable_cancel_on_failover=false", "use_queue_manager=false",
		"hostname", "processname", "rabbit_stream_fanout=false", "conn_pool_min_size=2", "conn_pool_ttl=1200",
		"rpc_conn_pool_size=30", "rabbit_host", "rabbit_hosts", "rabbit_port", "rabbit_userid", "rabbit_virtual_host",
		"rabbit_max_retries")
	all = append(all, ignored("oslo_messaging_rabbit", "rabbit_password", "", "", hidden))
	return append(all, unusedKeystoneOptions()...)
}

func unusedKeystoneOptions() []Option {
	all := unusedOptions("keystone_authtoken", "auth_version", "cache", "memcached_servers", "memcache_servers",
		"memcache_security_strategy=None", "memcache_pool_dead_retry=300", "memcache_pool_maxsize=10",
		"memcache_pool_socket_timeout=3", "memcache_pool_unused_timeout=60", "memcache_pool_conn_get_timeout=10",
		"memcache_use_advanced_pool=true", "memcache_sasl_enabled=false", "memcache_username", "memcache_tls_enabled=false",
		"memcache_tls_cafile", "memcache_tls_certfile", "memcache_tls_keyfile", "memcache_tls_allowed_ciphers",
		"enforce_token_bind=permissive", "auth_admin_prefix", "auth_host", "auth_port", "auth_protocol", "identity_uri",
		"admin_user", "admin_tenant_name", "check_revocations_for_cached=false", "hash_algorithms=md5", "signing_dir",
		"revocation_cache_time", "timeout", "collect_timing=false", "split_loggers=false", "min_version", "max_version")
	for _, name := range []string{"memcache_secret_key", "memcache_password", "admin_token", "admin_password"} {
		all = append(all, ignored("keystone_authtoken", name, "", "", hidden))
	}
	return all
}
