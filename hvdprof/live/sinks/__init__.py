"""Where live figures and events go: all optional, none in a rank."""
