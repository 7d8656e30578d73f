"""Published timings of images and videos, predicted from their conditions."""
