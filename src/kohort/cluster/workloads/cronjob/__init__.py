"""CronJobs: Jobs that start by a schedule."""
