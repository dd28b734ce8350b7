// Package nova works on a real cloud: Nova, and what recovery asks of Placement and Keystone, over gophercloud. It has the
// method sets of the engine's Cloud and of the use cases' ComputeServices; nothing else knows Nova's JSON.
//
// Of gophercloud it uses authentication, the token with its renewal, and the request itself. Bodies and answers are our
// own: each is a few fields, and several of gophercloud's request types cannot leave a field out or send a false, which
// Nova refuses or misunderstands.
//
// An act (Client.Do) leaves at most once. Nothing below repeats it: redirects are not followed, 429 is an answer, HTTP/2 is
// off, and the one repetition there is, after a 401, follows an answer that says that nothing was done. Whether it has
// left is known: the last check, and the mark, are made while the body is being read onto the connection.
package nova
