"""Bodies of requests and answers: AWS JSON 1.1, AWS CBOR 1.1 and Smithy's RPC v2 CBOR. Knows no operation and no broker."""
