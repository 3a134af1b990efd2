"""StatefulSets: numbered pods with stable names and claims, created, scaled and rolled in order."""
