"""A large timeline part by part, in bounded memory."""
