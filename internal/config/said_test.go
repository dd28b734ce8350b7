package config_test

import (
	"strings"
	"testing"

	"github.com/salvor-ha/salvor/internal/config"
)

func TestWhatOthersSaidIsOneShortLineWithoutSecrets(t *testing.T) {
	c := config.NewCleaner("u", config.NewSecret("s3 &cret"), config.Secret{})
	for text, want := range map[string]string{
		"no":                                      "no",
		" a\r\n\tb\x00\x1b[1m\u0085c\xff":         "a b [1m c",
		"u:s3 &cret, s3+%26cret, s3%20&cret":      "u:***, ***, ***",
		`{"p": "s3 \u0026cret"} dTpzMyAmY3JldA==`: `{"p": "***"} ***`,
		strings.Repeat("ä", 501):                  strings.Repeat("ä", 500) + "…",
		"":                                        "",
	} {
		if got := c.Line(text); got != want {
			t.Errorf("%.100q: %.100q, want %.100q", text, got, want)
		}
	}
}
