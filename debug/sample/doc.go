// Package sample is a small fleet in which everything that the pages can show
// occurs once: every state of a cluster, an endpoint and a proxy, conflicts,
// and names that try to be markup. Tests of the pages and of the command line
// show it; nothing else imports it.
package sample
