"""What the demo's bank and shop do, each protocol in a file of its own, all at the same time.

    kafka       a group that checks the bank's transactions (who writes them is `headrace.spark.runner.feeding`)
    amqp        orders of the shop to an exchange; a consumer that rejects some of them, so that there are dead letters
    kinesis     clicks of the shop to a stream, and who reads it
    webhooks    the shop's orders to a receiver of the demo's own, which now and then does not answer well
    multicast   the bank's transactions as a feed over UDP on loopback, and who listens

Each is a thread (`background`) with connections of its own, a rate that does not grow, and counts of what it did. Everything
that it makes on the server has a name that begins with `demo.`, or with what the gallery calls its topics (`bank.`, `shop.`),
and what is there already is used as it is: the demo can be started again on the same folder. `amqp_link` is the bit of AMQP it
needs.
"""
