package app

import (
	"time"

	"github.com/salvor-ha/salvor/internal/api"
	"github.com/salvor-ha/salvor/internal/config"
	"github.com/salvor-ha/salvor/internal/ha"
	"github.com/salvor-ha/salvor/internal/keystone"
	"github.com/salvor-ha/salvor/internal/nova"
	"github.com/salvor-ha/salvor/internal/plan"
	"github.com/salvor-ha/salvor/internal/policy"
	"github.com/salvor-ha/salvor/internal/store"
)

// Each room has a Config of its own; here masakari.conf becomes them.

// userAgent is what salvor calls itself towards OpenStack.
func userAgent() string { return "salvor/" + Version }

// Galera: how much of the other nodes' writes a session waits for (DESIGN section 3).
const (
	syncReads       = 1 // a client reads what it just wrote
	syncReadsWrites = 3 // an engine also writes upon what others wrote
)

func storeConfig(c *config.Config, syncWait int) store.Config {
	d := c.Database
	s := store.Config{
		URL: d.Connection.Reveal(), MaxOpen: d.MaxPoolSize + d.MaxOverflow, Recycle: d.RecycleTime,
		SyncWait: syncWait,
	}
	if d.MaxPoolSize == 0 { // "no limit"
		s.MaxOpen = noPoolLimit
	}
	return s
}

// noPoolLimit is what max_pool_size = 0 means: more connections than a process of salvor can use at a time.
const noPoolLimit = 500

func novaConfig(c *config.Config) nova.Config {
	n := c.Nova
	return nova.Config{
		AuthURL: n.AuthURL, User: n.User, Password: n.Password, Project: n.Project, UserDomain: n.UserDomain,
		ProjectDomain: n.ProjectDomain, SystemScope: n.SystemScope, Region: n.Region, CatalogInfo: n.CatalogInfo,
		CAFile: n.CertificateFile, Insecure: n.Insecure, Timeout: c.Salvor.NovaTimeout,
		MaxConnections: 2 * c.Salvor.NovaConcurrencyMax, UserAgent: userAgent(), RequestID: ha.RequestID,
	}
}

func keystoneConfig(c *config.Config) keystone.Config {
	k := c.Keystone
	return keystone.Config{
		AuthURL: k.AuthURL, Username: k.Username, UserID: k.UserID, Password: k.Password.Reveal(),
		UserDomainName: k.UserDomainName, UserDomainID: k.UserDomainID, ProjectName: k.ProjectName, ProjectID: k.ProjectID,
		ProjectDomainName: k.ProjectDomainName, ProjectDomainID: k.ProjectDomainID, DomainName: k.DomainName, DomainID: k.DomainID,
		SystemScope: k.SystemScope, TrustID: k.TrustID, ApplicationCredentialID: k.ApplicationCredentialID,
		ApplicationCredentialName: k.ApplicationCredentialName, ApplicationCredentialSecret: k.ApplicationCredential.Reveal(),
		DefaultDomainName: k.DefaultDomainName, DefaultDomainID: k.DefaultDomainID, Interface: k.Interface, Region: k.RegionName,
		CAFile: k.CAFile, CertFile: k.CertFile, KeyFile: k.KeyFile, Insecure: k.Insecure, Timeout: k.ConnectTimeout,
		CacheTime: cacheTime(k), ServiceTokenRoles: k.ServiceTokenRoles, ServiceTokenRolesRequired: k.ServiceTokenRequired,
		ServiceType: k.ServiceType, Retries: k.MaxRetries,
	}
}

// cacheTime: here 0 and below mean no cache; there 0 means the default.
func cacheTime(k config.Keystone) time.Duration {
	if k.TokenCacheTime <= 0 {
		return -1
	}
	return k.TokenCacheTime
}

func apiConfig(c *config.Config) api.Config {
	uri := c.Keystone.WWWAuthenticateURI
	if uri == "" {
		uri = c.Keystone.AuthURL
	}
	return api.Config{
		MaxLimit: c.API.MaxLimit, MaxBody: int64(c.Middleware.MaxBodySize), MaxHeader: c.Middleware.MaxHeaderLine,
		LinkPrefix: c.API.LinkPrefix, ProjectIDRegex: c.API.ProjectIDPattern, ParseProxy: c.Middleware.ProxyHeaders,
		WWWAuthenticate: uri, IdleTimeout: idleTimeout(c.WSGI), DelayAuthDecision: c.Keystone.DelayAuthDecision,
		CORS: api.CORS{
			AllowedOrigin: c.CORS.AllowedOrigins, AllowCredentials: c.CORS.AllowCredentials, ExposeHeaders: c.CORS.ExposeHeaders,
			MaxAge: c.CORS.MaxAge, AllowMethods: c.CORS.AllowMethods, AllowHeaders: c.CORS.AllowHeaders,
		},
	}
}

// idleTimeout: client_socket_timeout = 0 is "none"; a day is as good, and ends.
func idleTimeout(w config.WSGI) time.Duration {
	if w.SocketTimeout == 0 {
		return 24 * time.Hour
	}
	return w.SocketTimeout
}

func policyConfig(c *config.Config) policy.Config {
	p := policy.Config{DefaultRule: c.Policy.DefaultRule}
	if c.Policy.File != "" {
		p.File = c.Places(c.Policy.File)
	}
	for _, d := range c.Policy.Dirs {
		p.Dirs = append(p.Dirs, c.Places(d))
	}
	return p
}

// processesOfNova are the names under which monitors report nova-compute.
var processesOfNova = []string{ha.ProcessNovaCompute, "openstack-nova-compute"}

func rules(c *config.Config) plan.Rules {
	e, s := c.Engine, c.Salvor
	return plan.Rules{
		MetadataKey: c.HostFailure.MetadataKey, EvacuateAll: c.HostFailure.EvacuateAll, IgnoreError: c.HostFailure.IgnoreErrored,
		AddToAggregate: c.HostFailure.AddToAggregate, LeaveLocalDisk: s.LocalDisk == "leave", StorageAction: s.StorageFailureAction, DisableReason: c.HostFailure.DisableReason, Threads: e.EvacuationsPerHost,
		VMMetadataKey: c.InstanceFailure.MetadataKey, ProcessAll: c.InstanceFailure.ProcessAll,
		ProcessReason: c.ProcessFailure.DisableReason, WaitService: e.WaitAfterServiceUpdate, WaitEvacuation: e.WaitAfterEvacuation,
		WaitPowerOff: e.WaitAfterPowerOff, WaitPowerOn: e.WaitAfterPowerOn, RetryInterval: e.RetryInterval, Expiry: e.ExpiredAfter,
		ForceDown: s.ForceDown, TrustReports: s.TrustReports, ReportInterval: s.NovaReportInterval, ProofMaxAge: s.ProofMaxAge,
		OrderInDoubt: s.OrderInDoubt, NovaTimeout: s.NovaTimeout, BrakePercent: s.BrakePercent, RecoveryRate: s.HostRecoveryRate,
		MaxAttempts: s.MaxRecoveryAttempts, AutoReturn: s.AutoReturn, HealthyDelay: s.HealthyDelay, VerifyInterval: e.VerifyInterval,
		ProcessesOfNova: processesOfNova, NoPeriodic: !e.Periodic, Classes: instanceClasses(s.InstanceClasses),
		RestartLimit: s.InstanceRestartLimit, RestartWindow: s.RestartWindow, ReturnLimit: s.AutoReturnLimit, ReturnWindow: s.AutoReturnWindow,
	}
}

func instanceClasses(read []config.InstanceClass) (all []ha.InstanceClass) {
	for _, r := range read {
		c := ha.InstanceClass{Name: r.Name, Action: ha.ClassAction(r.Action), Priority: r.Priority, Waits: r.Waits, Wait: r.Wait, Cap: r.Cap, Restart: r.Restart}
		for _, cond := range r.Conditions {
			c.Conditions = append(c.Conditions, ha.Condition{Trait: ha.Trait(cond.Trait), Key: cond.Key, Values: cond.Values})
		}
		all = append(all, c)
	}
	return all
}
