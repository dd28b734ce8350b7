package config

import "time"

// Config is masakari.conf, read. Durations are durations whatever the file's unit; an unset string is "".
type Config struct {
	API             API
	Engine          Engine
	Nova            Nova
	Log             Log
	Keystone        Keystone        // [keystone_authtoken]
	Database        Database        // [database]
	HostFailure     HostFailure     // [host_failure]
	InstanceFailure InstanceFailure // [instance_failure]
	ProcessFailure  ProcessFailure  // [process_failure]
	Flows           Flows           // [taskflow_driver_recovery_flows]
	Notifications   Notifications   // [oslo_messaging_notifications]
	Rabbit          Rabbit          // [oslo_messaging_rabbit]
	Policy          Policy          // [oslo_policy]
	Middleware      Middleware      // [oslo_middleware]
	CORS            CORS            // [cors]
	WSGI            WSGI            // [wsgi]
	Salvor          Salvor          // [salvor]
	Agent           Agent           // [agent]

	transport Secret // [DEFAULT] transport_url
	settings  []Setting
	index     map[[2]string]int // (group, name) to its place in settings
	dirs      []string          // where Places are
}

// API are the options of [DEFAULT] and [osapi_v1] about the HTTP API.
type API struct {
	AuthStrategy      string // keystone or noauth2
	Listen            string
	Port              int
	UseSSL            bool
	MaxLimit          int
	LinkPrefix        string
	ProjectIDPattern  string        // [osapi_v1] project_id_regex
	DuplicateInterval time.Duration // duplicate_notification_detection_interval
}

// Engine are the options of [DEFAULT] about recoveries and the process.
type Engine struct {
	Host                   string // names this engine to people and in notifications
	StatePath              string
	WaitAfterServiceUpdate time.Duration
	WaitAfterEvacuation    time.Duration
	VerifyInterval         time.Duration
	WaitAfterPowerOff      time.Duration
	WaitAfterPowerOn       time.Duration
	RetryInterval          time.Duration // process_unfinished_notifications_interval
	ExpiredAfter           time.Duration // notifications_expired_interval
	EvacuationsPerHost     int           // host_failure_recovery_threads; 0, as long as no file sets it, is no limit
	Periodic               bool          // periodic_enable: retries and expiry
}

// Nova are the options of [DEFAULT] with which salvor works on the cloud.
type Nova struct {
	AuthURL         string
	User            string
	Password        Secret
	Project         string
	UserDomain      string
	ProjectDomain   string
	SystemScope     string
	Region          string
	CatalogInfo     string // service_type:service_name:interface
	CertificateFile string
	Insecure        bool
}

// Log are the options of oslo.log that salvor has a use for.
type Log struct {
	Debug     bool
	JSON      bool
	File      string
	Dir       string
	UseStderr bool
	UseSyslog bool
	Facility  string
	Journal   bool
}

// Keystone says how tokens of callers are validated. The plugin's options come from AuthSection where it is set.
type Keystone struct {
	WWWAuthenticateURI        string
	AuthSection               string
	AuthType                  string
	AuthURL                   string
	Username, UserID          string
	Password                  Secret
	ProjectName, ProjectID    string
	DomainName, DomainID      string
	UserDomainName            string
	UserDomainID              string
	ProjectDomainName         string
	ProjectDomainID           string
	DefaultDomainName         string
	DefaultDomainID           string
	SystemScope               string
	TrustID                   string
	ApplicationCredentialID   string
	ApplicationCredentialName string
	ApplicationCredential     Secret
	Interface                 string
	RegionName                string
	CAFile, CertFile, KeyFile string
	Insecure                  bool
	ConnectTimeout            time.Duration
	MaxRetries                int
	TokenCacheTime            time.Duration // 0 and below: no cache
	DelayAuthDecision         bool
	ServiceTokenRoles         []string
	ServiceTokenRequired      bool // service_token_roles_required
	ServiceType               string
}

// Database is where the rows are.
type Database struct {
	Connection    Secret // SQLAlchemy URL, see ParseDatabaseURL
	MaxPoolSize   int    // 0: no limit
	MaxOverflow   int
	RecycleTime   time.Duration
	MaxRetries    int // -1: without end
	RetryInterval time.Duration
}

// HostFailure chooses the instances of a failed host.
type HostFailure struct {
	EvacuateAll    bool
	MetadataKey    string
	IgnoreErrored  bool
	AddToAggregate bool
	DisableReason  string
}

// InstanceFailure chooses the instances whose own failures are acted upon.
type InstanceFailure struct {
	ProcessAll  bool
	MetadataKey string
}

// ProcessFailure is about failed nova-computes.
type ProcessFailure struct{ DisableReason string }

// Flows are the recovery workflows that an operator may have edited.
type Flows struct {
	HostAuto, HostReserved, Instance, Process Flow
}

// Notifications say which events go to the message bus.
type Notifications struct {
	Drivers      []string
	TransportURL Secret // the effective one: its own, else [DEFAULT] transport_url
	Retry        int    // -1: without end
	Exchange     string // [DEFAULT] control_exchange
}

// Rabbit must declare queues as the consumers do.
type Rabbit struct {
	SSL            bool
	CAFile         string
	CertFile       string
	KeyFile        string
	VerifyHostname bool
	Durable        bool
	AutoDelete     bool
	HAQueues       bool
	Quorum         bool
	RetryInterval  time.Duration
	RetryBackoff   time.Duration
	RetryMax       time.Duration
	Heartbeat      time.Duration
}

// DefaultPolicyFile is where rules are looked for that nobody has named; it need not be there.
const DefaultPolicyFile = "policy.yaml"

// Policy names oslo.policy's files; see Config.Places for relative ones.
type Policy struct {
	File        string
	Dirs        []string
	DefaultRule string
}

// Middleware are limits and trust in front of the API.
type Middleware struct {
	MaxBodySize   int
	ProxyHeaders  bool // enable_proxy_headers_parsing
	MaxHeaderLine int
}

// CORS is off while AllowedOrigins is empty.
type CORS struct {
	AllowedOrigins   []string
	AllowCredentials bool
	ExposeHeaders    []string
	MaxAge           time.Duration
	AllowMethods     []string
	AllowHeaders     []string
}

// WSGI are the files and limits of the API's listener.
type WSGI struct {
	CAFile, CertFile, KeyFile string
	KeepAlive                 bool
	SocketTimeout             time.Duration // 0: none
}

// Salvor are the options that Masakari does not have (RECOVERY section 8).
type Salvor struct {
	ForceDown            bool
	TrustReports         bool
	NovaReportInterval   time.Duration
	ProofMaxAge          time.Duration
	OrderInDoubt         time.Duration
	BrakePercent         int // 0: off
	HostRecoveryRate     int // per segment and minute; 0: off
	MaxRecoveryAttempts  int
	NovaConcurrencyMax   int
	NovaTimeout          time.Duration
	AutoReturn           bool
	HealthyDelay         time.Duration
	AutoReturnLimit      int // 0: none
	AutoReturnWindow     time.Duration
	InstanceClasses      []InstanceClass
	InstanceRestartLimit int // 0: none
	RestartWindow        time.Duration
	LocalDisk            string // evacuate or leave
	StorageFailureAction string // error or evacuate

	BlobTransfers          int
	BlobTransfersPerSource int
	BlobTransfersPerTarget int
	BlobReservedMB         int
	BlobSilenceGrace       time.Duration
	BlobVerifyInterval     time.Duration

	LeaseTTL     time.Duration
	LeaseTick    time.Duration
	DrainTimeout time.Duration
	PollInterval time.Duration
	FencingFile  string
	// FencingRehearsalInterval is between two rehearsals of all hosts' fencing; 0: none.
	FencingRehearsalInterval time.Duration
	WebhookURLs              []string
	WebhookSecret            Secret
	DoctorInterval           time.Duration // 0: never
	WebhookTimeout           time.Duration
	WebhookGiveUp            time.Duration
	TraceURL                 string
	OutboxMaxRows            int    // per destination
	MetricsListen            string // "": no listener
}
