// Package simhttp shows a simulated cloud over HTTP as clients of OpenStack expect it: Keystone under /v3, Nova under
// /compute/v2.1, Placement under /placement, the hosts' BMCs under /redfish/v1; and under /sim the interface by which tests
// kill hosts and inject faults.
//
// A BMC takes the same accounts, by HTTP's basic authentication or a session; who shows none is let in. POST
// /sim/hosts/{name}/bmc makes one misbehave.
//
// Users admin, masakari (admin in project service) and demo (member in project demo) have the password "secret".
package simhttp
