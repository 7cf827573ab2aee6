"""Where live figures and events go: one module per destination, all optional, none in a rank."""
