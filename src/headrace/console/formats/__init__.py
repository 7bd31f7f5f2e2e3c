"""Bytes of records as text, by a schema that somebody gives. Nothing of NiceGUI is here.

    framing      what serializers put before the data: a schema registry's id, Avro's fingerprint
    avro_schema  a schema of Avro, read and checked; its fingerprint
    avro         data of Avro as JSON
    protobuf     data of Protobuf as JSON, by the library `protobuf`
    proto_source the text of a .proto file, read for it
    errors       what can be wrong
    reading      how the keys and values of a topic are read: which format, which schema

A schema describes data, it runs nothing. Both it and the data may come from anybody, so all of this has bounds.
"""
