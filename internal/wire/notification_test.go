package wire

import (
	"strings"
	"testing"
)

// A recovery that has ended well leaves an empty message in its row; clients see null, as of one that never said anything (contract 1.9).
func TestAMessageThatSaysNothingIsNull(t *testing.T) {
	for message, want := range map[string]string{"": `"message":null`, "waiting: Nova does not answer": `"message":"waiting: Nova does not answer"`} {
		n := notification
		n.Message = &message
		if got := string(Encode(NotificationBody{NewNotification(n)})); !strings.Contains(got, want) {
			t.Errorf("message %q: %s, want %s", message, got, want)
		}
	}
}
