package wire

import (
	"fmt"
	"html"
	"net/http"
)

// Plain is the answer of a layer below the API: route not found, too large, Keystone away (contract 1.3). It is no fault,
// and has three shapes.
type Plain struct {
	Status      int
	Title       string
	Explanation string
	Detail      string
}

// NotFound is the answer to a path or method without a route.
func NotFound() Plain {
	return Plain{Status: http.StatusNotFound, Title: "Not Found", Explanation: "The resource could not be found."}
}

// TooLarge is the answer to a body of more than most bytes.
func TooLarge(most int64) Plain {
	return Plain{
		Status: http.StatusRequestEntityTooLarge, Title: "Request Entity Too Large",
		Explanation: fmt.Sprintf("Request is too large. Larger than max_request_body_size (%d).", most),
	}
}

// NotAuthorized is Masakari's own 401, which is seen with delay_auth_decision only.
func NotAuthorized() Plain {
	return Plain{
		Status: http.StatusUnauthorized, Title: "Unauthorized",
		Explanation: "This server could not verify that you are authorized to access the document you requested.  " +
			"Either you supplied the wrong credentials (e.g., bad password), or your browser does not understand how to " +
			"supply the credentials required.",
	}
}

// KeystoneAway is the answer while tokens cannot be validated.
func KeystoneAway() Plain {
	return Plain{
		Status: http.StatusServiceUnavailable, Title: "Service Unavailable",
		Explanation: "The server is currently unavailable. Please try again at a later time.",
		Detail:      "The Keystone service is temporarily unavailable.",
	}
}

// Render returns the body that fits the Accept header, and its content type: HTML or JSON if one is wanted, else text.
func (p Plain) Render(accept string) (contentType string, body []byte) {
	status := fmt.Sprintf("%d %s", p.Status, p.Title)
	switch Accepted(accept, "text/html", MediaJSON) {
	case "text/html":
		text := html.EscapeString(p.Explanation) + "<br /><br />\n" + html.EscapeString(p.Detail) + "\n\n"
		page := "<html>\n <head>\n  <title>" + status + "</title>\n </head>\n <body>\n  <h1>" + status + "</h1>\n  " + text + "\n </body>\n</html>"
		return "text/html; charset=UTF-8", []byte(page)
	case MediaJSON:
		return MediaJSON, Encode(struct {
			Message string `json:"message"`
			Code    string `json:"code"`
			Title   string `json:"title"`
		}{p.Explanation + "<br /><br />\n" + p.Detail + "\n\n", status, p.Title})
	default:
		return "text/plain; charset=UTF-8", []byte(status + "\n\n" + p.Explanation + "\n\n " + p.Detail + "  ")
	}
}
