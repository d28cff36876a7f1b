"""The transport of pygrpc-native, an optional extra. Nothing outside this folder knows it."""
