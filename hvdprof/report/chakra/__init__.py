"""The steps of one pass as a Chakra execution trace: one protobuf file per rank."""
