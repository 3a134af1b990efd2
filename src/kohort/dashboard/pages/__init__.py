"""HTML of the pages: functions from view models to `Html`. No rule about sets is in here, only how things look."""
