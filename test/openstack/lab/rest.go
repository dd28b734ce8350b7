package lab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Password is that of every account of the lab.
const Password = "secret"

// Account is a user in a project of the domain Default.
type Account struct{ Name, Project string }

// Token is a login: who one is, and for what project.
type Token struct {
	ID      string
	Project string // id
	User    string // id
	// Catalog are the public endpoints by service type, of every region.
	Catalog map[string]string
}

var plain = &http.Client{
	Timeout:   2 * time.Minute,
	Transport: &http.Transport{Proxy: nil, MaxIdleConnsPerHost: 64},
}

// StatusError is an answer of another status than asked for.
type StatusError struct {
	Op     string
	Status int
	Text   string
}

func (e *StatusError) Error() string { return fmt.Sprintf("%s: %d %s", e.Op, e.Status, e.Text) }

// Call makes one request with a token; in and out are JSON, nil for none. An answer from 400 up is a *StatusError.
func Call(ctx context.Context, token, method, url string, in, out any) error {
	_, err := call(ctx, token, method, url, in, out)
	return err
}

func call(ctx context.Context, token, method, url string, in, out any) (http.Header, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if strings.HasPrefix(url, PlacementURL) { // which takes no list of versions
		req.Header.Set("OpenStack-API-Version", "placement 1.36")
	} else {
		req.Header.Set("OpenStack-API-Version", "compute 2.93")
	}
	if token != "" {
		req.Header.Set("X-Auth-Token", token)
	}
	resp, err := plain.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 400 {
		return resp.Header, &StatusError{method + " " + url, resp.StatusCode, string(text)}
	}
	if out == nil || len(text) == 0 {
		return resp.Header, nil
	}
	return resp.Header, json.Unmarshal(text, out)
}

// Login asks Keystone for a token.
func Login(ctx context.Context, authURL string, a Account) (Token, error) {
	domain := map[string]string{"name": "Default"}
	in := map[string]any{"auth": map[string]any{
		"identity": map[string]any{"methods": []string{"password"}, "password": map[string]any{
			"user": map[string]any{"name": a.Name, "password": Password, "domain": domain}}},
		"scope": map[string]any{"project": map[string]any{"name": a.Project, "domain": domain}},
	}}
	var out struct {
		Token struct {
			Project, User struct{ ID string }
			Catalog       []struct {
				Type      string
				Endpoints []struct{ Interface, URL string }
			}
		}
	}
	header, err := call(ctx, "", http.MethodPost, authURL+"/auth/tokens", in, &out)
	if err != nil {
		return Token{}, err
	}
	t := Token{
		ID: header.Get("X-Subject-Token"), Project: out.Token.Project.ID, User: out.Token.User.ID,
		Catalog: map[string]string{},
	}
	for _, s := range out.Token.Catalog {
		for _, e := range s.Endpoints {
			if _, ok := t.Catalog[s.Type]; !ok && e.Interface == "public" {
				t.Catalog[s.Type] = e.URL
			}
		}
	}
	return t, nil
}
