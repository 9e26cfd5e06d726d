"""What the simulated robots share: cameras, laser, textures, scenes, videos, and their network."""
