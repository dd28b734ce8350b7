// Package clients runs the clients that operators of Masakari have against salvor: the openstack command with Masakari's
// plugin, openstacksdk, gophercloud, and the monitors' own sending code. salvor is the true program with Keystone
// authentication, before a simulated cloud; every exchange is also checked against openapi.yaml.
package clients
