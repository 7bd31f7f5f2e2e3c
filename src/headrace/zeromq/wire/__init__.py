"""What the client and the front end share: the form of messages (`frames`), contexts and sockets with their options
(`sockets`), keys of CURVE and who may come in (`keys`, `gate`), and what is said of what was `dropped`. Imports `record` and
pyzmq, and nothing else of Headrace."""
