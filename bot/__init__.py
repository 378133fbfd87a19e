"""The bot: receives deliveries, decides, and speaks to GitHub."""
