"""The analysis as one file to send: HTML, Markdown, JSON; figures as files of images."""
