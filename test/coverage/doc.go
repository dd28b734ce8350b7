// Package coverage asks a true salvor, before a simulated cloud, who is protected, and rehearses hosts' deaths: each plant is named with
// its mend, nothing is changed by looking, and what then happens is what was said.
package coverage
