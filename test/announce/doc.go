// Package announce takes the RabbitMQ away from true salvor processes under load, by kill -9, and looks at what consumers and
// webhooks got: every versioned notification, once or more, of each object in the order of its changes.
package announce
