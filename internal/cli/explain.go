package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/salvor-ha/salvor/internal/client"
	"github.com/salvor-ha/salvor/internal/wire"
)

// notFoundError is a name that nothing has.
type notFoundError struct{ text string }

func (e *notFoundError) Error() string { return e.text }

// explain says an error as a person at a prompt wants it, with what to do, and the exit status that goes with it.
func explain(err error) (text string, code int) {
	var (
		none     *notFoundError
		login    *client.LoginError
		away     *client.UnreachableError
		stranger *client.StrangerError
		fault    *wire.Fault
	)
	switch {
	case errors.As(err, &none):
		return none.text, exitNotFound
	case errors.Is(err, context.Canceled):
		return "stopped", exitStopped
	case errors.As(err, &login):
		return explainLogin(login)
	case errors.As(err, &away) && mistrust(away) != "":
		return mistrust(away), exitFailed
	case errors.As(err, &away):
		return fmt.Sprintf("no api at %s: %s\nIs salvor api, or salvor serve, running there? Another address: --url, SALVOR_URL, or the service %s in Keystone's catalog.",
			away.URL, reason(away.Err), client.ServiceType), exitAway
	case errors.As(err, &stranger) && stranger.TLS:
		return stranger.URL + " speaks TLS: let the URL begin with https://", exitFailed
	case errors.As(err, &stranger) && stranger.To != "":
		return fmt.Sprintf("%v: put that into --url, SALVOR_URL, or the service %s in Keystone's catalog", stranger, client.ServiceType), exitFailed
	case errors.As(err, &stranger):
		return fmt.Sprintf("what answers at %s is no instance HA api (HTTP %d): check --url, SALVOR_URL, or the service %s in Keystone's catalog",
			stranger.URL, stranger.Status, client.ServiceType), exitFailed
	case errors.As(err, &fault):
		return explainFault(fault)
	default:
		return err.Error(), exitFailed
	}
}

func explainLogin(e *client.LoginError) (string, int) {
	var (
		away     *client.UnreachableError
		stranger *client.StrangerError
		fault    *wire.Fault
	)
	switch {
	case errors.As(e.Err, &away) && mistrust(away) != "":
		return mistrust(away), exitFailed
	case errors.As(e.Err, &away):
		return fmt.Sprintf("no Keystone at %s: %s\nCheck OS_AUTH_URL, or auth_url in clouds.yaml.", e.URL, reason(away.Err)), exitAway
	case errors.As(e.Err, &fault) && fault.Status/100 == 4:
		return fmt.Sprintf("Keystone at %s refuses the account (%d): %s\nCheck name, password, domains and project: the variables OS_*, or the cloud in clouds.yaml.",
			e.URL, fault.Status, fault.Message), exitRefused
	case errors.As(e.Err, &fault):
		return fmt.Sprintf("Keystone at %s cannot answer now (%s): try again", e.URL, fault), exitAway
	case errors.As(e.Err, &stranger) && stranger.TLS:
		return stranger.URL + " speaks TLS: let OS_AUTH_URL, or auth_url in clouds.yaml, begin with https://", exitFailed
	case errors.As(e.Err, &stranger) && stranger.To != "":
		return fmt.Sprintf("%v: put that into OS_AUTH_URL, or auth_url in clouds.yaml", stranger), exitFailed
	default:
		return fmt.Sprintf("what answers at %s is no Keystone: check OS_AUTH_URL, or auth_url in clouds.yaml", e.URL), exitFailed
	}
}

func explainFault(f *wire.Fault) (string, int) {
	switch {
	case f.Status == http.StatusUnauthorized:
		return "the api wants an account (401): set the variables OS_*, or choose a cloud of clouds.yaml with --os-cloud", exitRefused
	case f.Status == http.StatusForbidden:
		return f.Message + " (403)\nWho may what: salvor policy check --role ROLE, on the api's machine.", exitRefused
	case f.Status == http.StatusNotFound && strings.HasPrefix(f.Message, "The resource could not be found"):
		return "the api does not know this address (404): is it salvor's, and of this version? Masakari has no orders to recoveries. Check --url", exitFailed
	case f.Status == http.StatusNotFound:
		return f.Message, exitNotFound
	case f.Status == http.StatusNotAcceptable:
		return f.Message + " (406)\nIt is a Masakari, or another version of salvor. OpenStack's own client speaks to each: openstack segment list", exitFailed
	case f.Status == http.StatusConflict:
		return f.Message + " (409)", exitRefused
	case f.Status == http.StatusBadRequest && strings.HasPrefix(f.Message, "Compute service with name"):
		return f.Message + " (400)\nA host has the name that its compute service has in Nova: openstack compute service list", exitUsage
	case f.Status == http.StatusBadRequest:
		return f.Message + " (400)", exitUsage
	case f.Status/100 == 5:
		again := "Try again; its log says more."
		if strings.Contains(f.Message, "Try again") {
			again = "Its log says more."
		}
		return fmt.Sprintf("the api cannot do it now (%d): %s\n%s", f.Status, f.Message, again), exitAway
	default:
		return f.Error(), exitFailed
	}
}

// reason is why nothing answered, in a few words.
func reason(err error) string {
	var (
		op      *net.OpError
		dns     *net.DNSError
		timeout interface{ Timeout() bool }
	)
	switch {
	case errors.As(err, &dns):
		return "the name " + dns.Name + " is not known"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	case errors.As(err, &op):
		_, text, found := strings.Cut(op.Err.Error(), ": ") // "connect: connection refused"
		if !found {
			text = op.Err.Error()
		}
		return text
	default:
		return err.Error()
	}
}

// mistrust says why a server that answers cannot be talked to, and what to do; "" when it is not that. Trying again does not help.
func mistrust(e *client.UnreachableError) string {
	var (
		certificate *tls.CertificateVerificationError
		alert       *net.OpError
	)
	switch {
	case errors.As(e.Err, &certificate):
		return fmt.Sprintf("the certificate of %s is not trusted: %v\nName the CA's certificate: OS_CACERT, or cacert in clouds.yaml.", e.URL, certificate.Err)
	case errors.As(e.Err, &alert) && alert.Op == "remote error": // an alert of TLS is called so
		return fmt.Sprintf("%s refuses TLS: %v\nDoes it want a certificate of yours? OS_CERT and OS_KEY, or cert and key in clouds.yaml.", e.URL, alert.Err)
	case strings.Contains(e.Err.Error(), "server gave HTTP response to HTTPS client"):
		return e.URL + " speaks plain HTTP: let the URL begin with http://"
	default:
		return ""
	}
}
