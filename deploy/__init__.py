"""What composes the bot and the worker into programs."""
