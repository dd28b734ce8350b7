// Package service holds the use cases behind the API and the console: edit segments and hosts, admit a report, show what
// is stored, pass an operator's orders on. It knows neither HTTP nor SQL. What it refuses are ha's typed errors; what is
// temporary is *ha.UnavailableError or *ha.CloudError (rule A5).
package service
